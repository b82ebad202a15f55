"""Laws of settings that change at run time: what can follow does, what cannot is refused by name, the file knows."""

from pathlib import Path

import pytest

from rocketeer.config.changing import changed_text
from rocketeer.config.properties import parse_properties
from rocketeer.model.topic import Perm
from rocketeer.protocol.bodies.properties import decode_settings
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from support.broker import BrokerUnderTest, broker_at
from support.recorded import recorded_command


async def change(broker: BrokerUnderTest, **settings: object) -> Command:
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    return await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def settings_of(broker: BrokerUnderTest) -> dict[str, str]:
    return decode_settings((await broker.ask(RequestCode.GET_BROKER_CONFIG)).body)


async def test_every_setting_that_rocketmq_tells_is_told(tmp_path: Path) -> None:
    recorded = decode_settings(recorded_command("admin_getBrokerConfig", 26, reply=True).body)
    async with broker_at(tmp_path) as broker:
        told = await settings_of(broker)
        assert set(recorded) - set(told) <= {"rocketmqHome", "namesrvAddr", "storePathCommitLog"}
        assert told["brokerName"] == "broker-a"
        answer = await broker.ask(RequestCode.GET_BROKER_CONFIG)
        assert '"counter":0' in answer.ext["version"]


async def test_topics_stop_to_appear_by_themselves_when_told_so_and_begin_again(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        assert (await broker.send("First", b"x")).code == ResponseCode.SUCCESS
        assert (await change(broker, autoCreateTopicEnable="false")).code == ResponseCode.SUCCESS
        assert (await settings_of(broker))["autoCreateTopicEnable"] == "false"
        assert (await broker.send("Second", b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await broker.send("First", b"x")).code == ResponseCode.SUCCESS
        answer = await broker.ask(RequestCode.GET_BROKER_CONFIG)
        assert '"counter":1' in answer.ext["version"]
    async with broker_at(tmp_path) as broker:  # the next life knows it
        assert (await broker.send("Second", b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        await change(broker, autoCreateTopicEnable="true")
        assert (await broker.send("Second", b"x")).code == ResponseCode.SUCCESS


async def test_a_broker_may_be_closed_for_writers_and_readers_and_opened_again(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("Sales", b"one")
        await change(broker, brokerPermission=int(Perm.READ))
        refused = await broker.send("Sales", b"two")
        assert (refused.code, refused.remark) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden",
        )
        assert [message.body for message in await broker.messages("Sales")] == [b"one"]
        await change(broker, brokerPermission=int(Perm.WRITE))
        assert (await broker.pull("Sales")).code == ResponseCode.NO_PERMISSION
        await change(broker, brokerPermission=int(Perm.READ | Perm.WRITE))
        await broker.send("Sales", b"three")
        assert [message.body for message in await broker.messages("Sales")] == [b"one", b"three"]


async def test_pulls_bring_as_many_messages_as_the_new_setting_says(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for _ in range(10):
            await broker.send("Sales", b"x")
        assert len(await broker.messages("Sales")) == 10
        await change(broker, maxTransferCountOnMessageInMemory=4)
        assert len(await broker.messages("Sales")) == 4


async def test_transactions_are_refused_from_now_on(tmp_path: Path) -> None:
    half = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01A1"
    async with broker_at(tmp_path) as broker:
        assert (await broker.send("Sales", b"x", properties=half)).code == ResponseCode.SUCCESS
        await change(broker, rejectTransactionMessage="true")
        assert (await broker.send("Sales", b"x", properties=half)).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"noSuchKey": "1"}, "unknown key noSuchKey"),
        ({"autoCreateTopicEnabled": "true"}, "unknown key autoCreateTopicEnabled; did you mean autoCreateTopicEnable?"),
        ({"brokerName": "other"}, "brokerName cannot be changed while the broker runs"),
        ({"flushDiskType": "SYNC_FLUSH"}, "flushDiskType cannot be changed while the broker runs"),
        ({"fileReservedTime": "many"}, "fileReservedTime=many: expected a whole number"),
        ({"deleteWhen": "25"}, "deleteWhen=25: expected hours of the day"),
        ({"diskMaxUsedSpaceRatio": "101"}, "diskMaxUsedSpaceRatio=101: expected a whole number from 0 to 100"),
        ({"fileReservedTime": "48", "brokerIP1": "1.2.3.4"}, "brokerIP1 cannot be changed"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_by_name_and_nothing_changes(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    async with broker_at(tmp_path) as broker:
        before = await settings_of(broker)
        answer = await change(broker, **changes)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(reason)
        assert await settings_of(broker) == before
        assert not (tmp_path / "config" / "broker.properties").exists()


async def test_the_black_list_is_kept(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        answer = await change(broker, configBlackList="")
        assert (answer.code, answer.remark) == (
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list.",
        )
        assert (await change(broker)).code == ResponseCode.SUCCESS, "nothing to change is no error"


async def test_the_file_keeps_its_comments_and_its_order(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("# ours\nbrokerName = broker-a\nfileReservedTime : 24\n\n# the end\n")
    async with broker_at(tmp_path / "store", config_path=path) as broker:
        await change(broker, fileReservedTime=48, deleteWhen="02;16")
    expected = "# ours\nbrokerName = broker-a\nfileReservedTime=48\n\n# the end\ndeleteWhen=02;16\n"
    assert path.read_text() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x=1",
        "x=1\n",
        "a=1\nx = \\\n  1, \\\n  2\nb=2\n",
        "x=1\nx=2\n# x=3\n",
        "# only a comment\\\nx:1\r\nb=2\r\n",
    ],
)
def test_a_changed_text_reads_back_with_just_that_changed(text: str) -> None:
    before = {entry.key: entry.value for entry in parse_properties(text)}
    changed = {
        entry.key: entry.value for entry in parse_properties(changed_text(text, {"x": "new \\ value"}))
    }
    assert changed == {**before, "x": "new \\ value"}
    assert changed_text(text, {"x": "9"}).count("x=9") == 1
