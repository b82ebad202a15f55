"""Our master and our slave: the log is copied byte for byte, from any beginning, and dispatched as it comes."""

from pathlib import Path

from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import BrokerUnderTest, broker_at
from support.pairs import ha_address, same_logs, slave_at, until


async def fill(master: BrokerUnderTest, count: int, size: int = 100, topic: str = "T") -> None:
    for number in range(count):
        sent = await master.send(topic, b"%06d" % number + bytes(size), queue_id=number % 4)
        assert sent.code == ResponseCode.SUCCESS


async def max_offset(broker: BrokerUnderTest, topic: str, queue_id: int) -> int:
    answer = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
    return int(answer.ext["offset"])


async def test_an_empty_slave_gets_the_whole_log_over_several_files(tmp_path: Path) -> None:
    async with broker_at(tmp_path / "m") as master:
        await fill(master, 300, size=10_000)  # three files of 1 MiB
        async with slave_at(tmp_path / "s", ha_address(master)) as slave:
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"), what="equal logs")
            assert [await max_offset(slave, "T", queue) for queue in range(4)] == [75] * 4
            await fill(master, 20)
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"), what="equal logs again")


async def test_a_slave_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    async with broker_at(tmp_path / "m") as master:
        await fill(master, 50)
        async with slave_at(tmp_path / "s", ha_address(master)):
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
        await fill(master, 50)
        async with slave_at(tmp_path / "s", ha_address(master)) as slave:
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
            assert await max_offset(slave, "T", 0) == 26


async def test_a_slave_refuses_what_only_a_master_may_do_with_rocketmqs_codes_and_texts(
    tmp_path: Path,
) -> None:
    async with broker_at(tmp_path / "m") as master, slave_at(tmp_path / "s", ha_address(master)) as slave:
        topic = {
            "topic": "T", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        for code, ext in ((17, topic), (215, {"topic": "T"}), (200, {}), (207, {"groupName": "G"})):
            answer = await slave.ask(code, ext)
            assert (answer.code, answer.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "Can't modify topic or subscription group from slave broker, "
                "please execute it from master broker.",
            )
        ended = await slave.ask(RequestCode.END_TRANSACTION, {})
        assert (ended.code, ended.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, None)
        sent = await slave.send("BenchmarkTest", b"no")
        assert sent.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "messages are put to the slave" in (sent.remark or "")
        commit = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
        assert (await slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS


async def test_several_slaves_follow_one_master_each_at_its_own_pace(tmp_path: Path) -> None:
    async with (
        broker_at(tmp_path / "m") as master,
        slave_at(tmp_path / "one", ha_address(master)),
        slave_at(tmp_path / "two", ha_address(master), broker={"broker_id": 2}),
    ):
        await fill(master, 100)
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "one"))
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "two"))


async def test_a_record_larger_than_a_piece_and_than_a_read_arrives_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 3_500  # 896 KiB of a file of 1 MiB
    async with broker_at(tmp_path / "m") as master, slave_at(tmp_path / "s", ha_address(master)) as slave:
        for number in range(3):
            assert (await master.send("T", b"%d" % number + body)).code == ResponseCode.SUCCESS
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
        assert await max_offset(slave, "T", 0) == 3
