"""Under SYNC_FLUSH a reply is a promise: no request that stores something is answered before the disk has it."""

import errno
from pathlib import Path

import pytest

from rocketeer.config import FlushMode
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.layout import StoredMessage
from rocketeer.store import segment as segment_module
from rocketeer.store.kernel import sync_range
from support.broker import BrokerUnderTest, broker_at

SYNC = {"flush_mode": FlushMode.SYNC_FLUSH, "sync_flush_timeout_ms": 20_000}
GROUP = "CG"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K"


class FailingDisk:
    """The real sync, until it is told to fail."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, address: int, start: int, end: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, "no")
        sync_range(address, start, end)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    failing = FailingDisk()
    monkeypatch.setattr(segment_module, "sync_range", failing)
    return failing


def back_header(message: StoredMessage) -> dict[str, object]:
    return {"offset": message.log_offset, "group": GROUP, "delayLevel": 0, "unitMode": "false"}


async def prepared(broker: BrokerUnderTest) -> dict[str, object]:
    sent = await broker.send("Tx", b"half", properties=HALF, f=4)
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": sent.ext["queueOffset"],
        "commitLogOffset": int(sent.ext["msgId"][16:], 16),
    }


async def test_a_send_back_is_not_answered_while_the_disk_fails(tmp_path: Path, disk: FailingDisk) -> None:
    async with broker_at(tmp_path, store=SYNC) as broker:
        await broker.send("T", b"x")
        (message,) = await broker.messages("T")
        disk.fails = True
        for _ in range(2):  # the second asks for what is stored already
            answer = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back_header(message))
            assert answer.code != ResponseCode.SUCCESS


@pytest.mark.parametrize("verdict", [8, 12])
async def test_the_end_of_a_transaction_is_not_answered_while_the_disk_fails(
    tmp_path: Path, disk: FailingDisk, verdict: int
) -> None:
    async with broker_at(tmp_path, store=SYNC) as broker:
        header = await prepared(broker)
        disk.fails = True
        answer = await broker.ask(RequestCode.END_TRANSACTION, {**header, "commitOrRollback": verdict})
        assert answer.code != ResponseCode.SUCCESS


async def test_a_half_message_resumed_is_not_answered_while_the_disk_fails(
    tmp_path: Path, disk: FailingDisk
) -> None:
    async with broker_at(tmp_path, store=SYNC) as broker:
        sent = await broker.send("Tx", b"half", properties=HALF, f=4)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        resumed = {"msgId": sent.ext["msgId"]}
        assert (await broker.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resumed)).code == ResponseCode.SUCCESS
        disk.fails = True
        answer = await broker.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resumed)
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_send_back_and_transactions_are_answered_when_the_disk_has_them(tmp_path: Path) -> None:
    async with broker_at(tmp_path, store=SYNC) as broker:
        await broker.send("T", b"x")
        (message,) = await broker.messages("T")
        for _ in range(2):
            answer = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back_header(message))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        for verdict in (8, 12):
            answer = await broker.ask(
                RequestCode.END_TRANSACTION, {**await prepared(broker), "commitOrRollback": verdict}
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark
