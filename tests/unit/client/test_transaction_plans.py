"""What a transaction producer says to brokers, compared with what Java's said; and what it makes of its user's words."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rocketeer import COMMIT, ROLLBACK, UNKNOWN, Message, Transaction, TransactionProducer, TransactionState
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.client.core.transactions import as_state, encode_half
from rocketeer.client.plans.effects import Oneway, Plan
from rocketeer.client.plans.send import Sender
from rocketeer.client.plans.transactions import answer_check, finish
from rocketeer.errors import ConnectFailed
from rocketeer.model.message import InvalidMessage
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.transaction import CheckTransactionStateHeader
from rocketeer.record.ids import UniqKeys
from support.clock import ManualClock
from support.plans import Script
from support.scripted_broker import scripted_broker, stored

RECORDED = Path(__file__).parents[2] / "golden" / "data" / "wire" / "transaction.jsonl"


def frames(code: int) -> list[dict[str, Any]]:
    lines = RECORDED.read_text().splitlines()
    return [f for f in map(json.loads, lines) if f["header"]["code"] == code and f["dir"] != "response"]


def sender() -> Sender:
    routes = RouteCache()
    brokers = (BrokerData("c", "broker-a", {0: "10.0.0.1:10911"}),)
    routes.put("TxTopic", Route((QueueData("broker-a", 4, 4, 6),), brokers))
    return Sender(ProducerConfig("PG_tx"), routes, NameServers(("n:9876",)), ManualClock())


def sent(message_id: str, log_offset: int, queue_offset: int) -> SendResult:
    place = "7F00000100002A9F" + f"{log_offset:016X}"
    return SendResult(
        SendStatus.SEND_OK, message_id, place, MessageQueue("TxTopic", "broker-a", 1), queue_offset
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_end_of_a_transaction_is_told_as_java_tells_it(number: int) -> None:
    recorded = [f for f in frames(37) if f["dir"] == "oneway" and f["t_ms"] < 3000][number]
    ext = recorded["header"]["extFields"]
    result = sent(ext["msgId"], int(ext["commitLogOffset"]), int(ext["tranStateTableOffset"]))
    state = TransactionState(int(ext["commitOrRollback"]))
    error = RuntimeError("boom") if recorded["header"].get("remark") else None
    script = Script([])
    done = script.run(finish(sender(), result, state, error))
    (command,) = script.commands
    assert command.ext == ext
    assert command.is_oneway
    assert script.addresses == ["10.0.0.1:10911"]
    assert (command.remark is None) == (error is None)
    assert done.state is state
    assert done.transaction_id == result.message_id


def test_an_answer_to_a_broker_that_asked_is_javas() -> None:
    asked = next(f for f in frames(39))["header"]["extFields"]
    recorded = next(
        f["header"]["extFields"]
        for f in frames(37)
        if f["header"]["extFields"]["fromTransactionCheck"] == "true"
    )
    header = decode_header(CheckTransactionStateHeader, asked)
    state = TransactionState(int(recorded["commitOrRollback"]))
    script = Script([])
    script.run(answer_check("b:1", "PG_tx", header, asked["msgId"], state, None, 3))
    assert script.commands[0].ext == recorded


def test_a_half_message_is_sent_as_java_sends_it() -> None:
    recorded = next(f for f in frames(310))["header"]["extFields"]
    config = ProducerConfig("PG_tx")
    encoder = Encoder(config, UniqKeys("127.0.0.1", 1, ManualClock()))
    outgoing = encode_half(encoder, Message("TxTopic", b"tx txc", tags="TagT", keys="txc"), "PG_tx", None)
    ours = dict(outgoing.properties)
    theirs = dict(pair.split("\x01") for pair in recorded["i"].split("\x02"))
    assert ours | {"UNIQ_KEY": ""} == theirs | {"UNIQ_KEY": ""}
    assert str(outgoing.sys_flag) == recorded["f"]
    immune = encode_half(encoder, Message("TxTopic", b"x"), "PG_tx", 30)
    assert immune.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "30"
    with pytest.raises(InvalidMessage, match="cannot be delayed"):
        encode_half(encoder, Message("TxTopic", b"x", delay_level=1), "PG_tx", None)


def test_a_broker_that_cannot_be_told_is_no_error() -> None:
    """It will ask."""

    def unreachable(plan: Plan[Any]) -> Any:
        effect = next(plan)
        assert isinstance(effect, Oneway)
        try:
            plan.throw(ConnectFailed(effect.address, "refused"))
        except StopIteration as end:
            return end.value

    result = unreachable(finish(sender(), sent("id", 1, 1), TransactionState.COMMIT))
    assert result.state is TransactionState.COMMIT
    gone = Script([])
    elsewhere = SendResult(SendStatus.SEND_OK, "id", "0" * 32, MessageQueue("T", "broker-z", 0), 0)
    assert gone.run(finish(sender(), elsewhere, TransactionState.COMMIT)).ok
    assert gone.effects == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (COMMIT, TransactionState.COMMIT),
        (ROLLBACK, TransactionState.ROLLBACK),
        (UNKNOWN, TransactionState.UNKNOWN),
        (None, TransactionState.UNKNOWN),
        (TransactionState.COMMIT, TransactionState.COMMIT),
        (True, TransactionState.UNKNOWN),
        (8, TransactionState.UNKNOWN),
        ("COMMIT", TransactionState.UNKNOWN),
        ([], TransactionState.UNKNOWN),
    ],
)
def test_only_a_verdict_is_a_verdict(said: object, meant: TransactionState) -> None:
    assert as_state(said) is meant


def test_the_local_transaction_is_not_run_when_the_half_message_may_get_lost() -> None:
    def not_safe(command: Command) -> Command:
        answer = stored(command)
        answer.code = int(ResponseCode.FLUSH_DISK_TIMEOUT)
        return answer

    def ended(command: Command) -> None:
        return None

    def local(transaction: Transaction) -> None:
        raise AssertionError("run")

    plays = {RequestCode.SEND_MESSAGE_V2: not_safe, RequestCode.END_TRANSACTION: ended}
    with (
        scripted_broker(plays) as broker,
        TransactionProducer("PG", nameserver=broker.address, check=lambda m: UNKNOWN) as producer,
    ):
        result = producer.send_in_transaction(Message("T", b"x"), local)
        assert (result.status, result.state) == (SendStatus.FLUSH_DISK_TIMEOUT, TransactionState.ROLLBACK)
        (end,) = broker.wait_for(RequestCode.END_TRANSACTION)
        assert end.ext["commitOrRollback"] == "12"


def test_a_refused_half_message_is_raised_and_nothing_is_ended() -> None:
    def refuses(command: Command) -> Command:
        return reply(command, ResponseCode.MESSAGE_ILLEGAL, "no")

    ran = threading.Event()
    with (
        scripted_broker(
            {RequestCode.SEND_MESSAGE_V2: refuses, RequestCode.END_TRANSACTION: lambda c: None}
        ) as broker,
        TransactionProducer("PG", nameserver=broker.address, check=lambda m: UNKNOWN) as producer,
    ):
        with pytest.raises(Exception, match="no"):
            producer.send_in_transaction(Message("T", b"x"), lambda t: ran.set())
        assert not broker.asked(RequestCode.END_TRANSACTION)
    assert not ran.is_set()
    assert request(RequestCode.END_TRANSACTION).code == 37
