"""`rocketeer up --brokers 2 --replicas 3`: an etcd, a name server and two groups, in one command."""

import contextlib
import random
from pathlib import Path

import psutil

from rocketeer import Message, Producer
from rocketeer.bench.control import Control
from rocketeer.cli.up_spec import up_spec
from rocketeer.errors import RocketeerError
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode
from support.senders import wait_for
from support.shell import Shell, is_free, read_until, stop


def free_base(tmp_path: Path) -> int:
    for _ in range(100):
        base = random.randrange(11_000, 11_900, 100)  # nobody is given these (config/ports.py, unit/cli)
        spec = up_spec(
            brokers=2, replicas=3, store_path=tmp_path, bind_host="127.0.0.1", host="127.0.0.1",
            port=base, namesrv_port=base + 70,
        )  # fmt: skip
        if all(is_free(port.number) for port in spec.ports):
            return base
    raise AssertionError("no free ports on this machine")


def masters_and_slaves(namesrv: str) -> dict[str, list[int]]:
    with Control(namesrv) as server:
        answer = server.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    return {name: sorted(data.addresses) for name, data in decode_cluster_info(answer.body).brokers.items()}


def test_two_groups_of_three_run_and_take_sends_and_all_processes_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    base = free_base(tmp_path)
    try:
        process = shell.start(
            "up", "--brokers", 2, "--replicas", 3, "--port", base, "--namesrv-port", base + 70,
            "--store", "s", "--no-console",
        )  # fmt: skip
        banner = read_until(process, "Ctrl-C")
        assert "broker-b 3" in banner
        namesrv = f"127.0.0.1:{base + 70}"
        children = psutil.Process(process.pid).children(recursive=True)
        wait_for(
            lambda: [len(each) for each in masters_and_slaves(namesrv).values() if 0 in each] == [3, 3],
            what="two leaders with two followers each",
        )
        used: set[str] = set()

        def both_groups_took_one() -> bool:
            with contextlib.suppress(RocketeerError):
                used.add(producer.send(Message("Anything", b"x")).queue.broker_name)
            return used == {"broker-a", "broker-b"}

        with Producer("PG", nameserver=namesrv, send_timeout_s=10) as producer:
            wait_for(both_groups_took_one, what="sends to both groups", state=used)
        assert stop(process)[0] == 0
        assert len(children) == 7, "six members and an etcd"
        assert not [child for child in children if child.is_running()]
    finally:
        shell.end_all()
