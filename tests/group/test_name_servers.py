"""What a name server hears of a change of leader: Apache's knows no epochs, so whoever led takes its leave."""

import asyncio
from pathlib import Path

from rocketeer.bench.groups import GroupCluster
from rocketeer.protocol.codes import RequestCode
from support.group_members import MemberInThread
from support.grouped import GROUP_CONF, group_command, leader_number
from support.name_servers import Listener
from support.senders import wait_for


def heard_of(listener: Listener, address: str) -> list[tuple[int, str]]:
    """(code, brokerId) of all that was said of this address, without repetitions."""
    said = [
        (command.code, command.ext["brokerId"])
        for command in list(listener.heard)
        if command.ext.get("brokerAddr") == address
    ]
    return [each for place, each in enumerate(said) if place == 0 or said[place - 1] != each]


def switch_leaders(tmp_path: Path, listener: Listener) -> None:
    conf = {**GROUP_CONF, "namesrvAddr": listener.address}
    with GroupCluster(tmp_path, members=2, conf=conf, started=False) as group:
        first, second = group.members
        with MemberInThread(first):
            wait_for(lambda: leader_number(group) == first.number, what="a leader")
            second.start()
            group.wait_until_in_sync()
            group_command(group, "switch", second.number)
            wanted = [
                (RequestCode.REGISTER_BROKER, "0"),
                (RequestCode.UNREGISTER_BROKER, "0"),
                (RequestCode.REGISTER_BROKER, "1"),
            ]
            wait_for(
                lambda: heard_of(listener, first.address)[-3:] == wanted,
                what="a leave of the leader and a follower's hello",
                state=[(command.code, command.ext) for command in listener.heard],
            )
            wait_for(
                lambda: heard_of(listener, second.address)[-1:] == [(RequestCode.REGISTER_BROKER, "0")],
                what="the next leader's hello",
            )


async def test_a_deposed_leader_takes_its_leave_of_the_name_servers(tmp_path: Path) -> None:
    async with Listener() as listener:
        await asyncio.to_thread(switch_leaders, tmp_path, listener)
