"""The rules of idempotent sending: every answer is scripted, time is the clock's."""

import pytest

from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.queue_sequence import (
    PendingSend,
    QueueSequence,
    dedup_id,
    with_producer_id,
    with_sequence_number,
)
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.idempotent import IdempotentSends, NotSent
from rocketeer.client.plans.send import Sender
from rocketeer.errors import (
    OUTCOME_UNKNOWN,
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    SendTimeout,
)
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.batch import iter_batch
from rocketeer.record.ids import UniqKeys
from support.clock import ManualClock
from support.plans import Answer, Script

QUEUE = MessageQueue("T", "a", 1)
DOWN = ConnectFailed("a:10911", "refused")
SILENT = CallTimeout("a:10911", 310, 3.0)
LOST = ConnectionLost("a:10911", "closed")


def stored() -> Command:
    return Command(code=0, ext={"msgId": "AB", "queueId": "1", "queueOffset": "7"})


def refusal(code: int) -> Command:
    return Command(code=code, remark="no")


class Bench:
    """A sender over one broker, and a sequence in one of its queues."""

    def __init__(self, *, renewable: bool = True, next_number: int | None = 0) -> None:
        config = ProducerConfig("shop", idempotent=True)
        self.clock = ManualClock()
        routes = RouteCache()
        routes.put("T", Route((QueueData("a", 2, 2, 6),), (BrokerData("c", "a", {0: "a:10911"}),)))
        self.sender = Sender(config, routes, NameServers(["ns:1"]), self.clock)
        self.encoder = Encoder(config, UniqKeys("127.0.0.1", 1, self.clock))
        self.sequence = QueueSequence("p", renewable, next_number)
        self.deadline_s = self.clock.monotonic_s() + 10

    def outgoing(self, *bodies: bytes) -> Outgoing:
        messages = [Message("T", body) for body in bodies or (b"x",)]
        return self.encoder.encode(messages if len(messages) > 1 else messages[0])

    def sends(self) -> IdempotentSends:
        return IdempotentSends(self.sender, QUEUE, self.deadline_s)

    def settle(self, pending: PendingSend, *answers: Answer) -> Script:
        script = Script([*answers])
        script.run(self.sends().settle_up_to(self.sequence, pending))
        return script

    def attempt_once(self, pending: PendingSend, answer: Answer) -> None:
        Script([answer]).run(self.sends().attempt_once(self.sequence, pending))

    def late(self, plan: Plan[None]) -> None:
        """Run a plan whose calls are never answered, until its time is over."""

        def play(call: object) -> Answer:
            self.clock.advance(ms=3000)
            return SILENT

        with pytest.raises(SendTimeout, match="keeps its number"):
            Script(play).run(plan)


def marks(outgoing: Outgoing) -> tuple[str, str]:
    return outgoing.properties["PRODUCER_ID"], outgoing.properties["PRODUCER_SEQ"]


def test_messages_are_numbered_also_in_batches() -> None:
    bench = Bench()
    batch = with_sequence_number(bench.outgoing(b"a", b"b"), "p", 5)
    properties = [item.properties.decode() for item in iter_batch(batch.body)]
    assert [text.split("PRODUCER_ID")[1] for text in properties] == [
        "\x01p\x02PRODUCER_SEQ\x015",
        "\x01p\x02PRODUCER_SEQ\x016",
    ]
    assert [item.body for item in iter_batch(batch.body)] == [b"a", b"b"]
    first, second = bench.sequence.take(bench.outgoing(b"a", b"b")), bench.sequence.take(bench.outgoing())
    assert (first.number, second.number, bench.sequence.next) == (0, 2, 3)


def test_a_batch_has_ids_of_its_own_or_none() -> None:
    bench = Bench()
    named = [Message("T", b"x", properties={"DEDUP_ID": f"{number}"}) for number in range(2)]
    batch = bench.encoder.encode(named)
    assert dedup_id(batch) == "0"
    assert all(
        b"PRODUCER_ID\x01p" in item.properties for item in iter_batch(with_producer_id(batch, "p").body)
    )
    assert dedup_id(bench.outgoing(b"a", b"b")) is None
    with pytest.raises(ClientError, match="all or none"):
        dedup_id(bench.encoder.encode([named[0], Message("T", b"x")]))


def test_what_a_fallen_leader_had_appended_is_in_doubt_and_stays_with_its_queue() -> None:
    unknown = Command(code=ResponseCode.SYSTEM_ERROR, remark=OUTCOME_UNKNOWN)
    not_leading = refusal(ResponseCode.SERVICE_NOT_AVAILABLE)
    bench = Bench()
    pending = bench.sequence.take(bench.outgoing())
    bench.attempt_once(pending, unknown)
    script = bench.settle(pending, not_leading, unknown, DOWN, stored())
    assert pending.result is not None
    assert len({(command.ext["e"], command.ext["i"]) for command in script.commands}) == 1
    assert (bench.sequence.next, bench.sequence.pending) == (1, [])


def test_without_an_answer_the_same_bytes_go_to_the_same_queue_again() -> None:
    bench = Bench()
    pending = bench.sequence.take(bench.outgoing())
    script = bench.settle(pending, SILENT, LOST, DOWN, refusal(ResponseCode.SYSTEM_BUSY), stored())
    assert pending.result is not None
    sent = [(command.ext["e"], command.ext["i"], command.body) for command in script.commands]
    assert len(sent) == 5
    assert len(set(sent)) == 1
    assert (bench.sequence.next, bench.sequence.pending) == (1, [])


def test_a_send_that_was_refused_until_its_time_was_over_says_why() -> None:
    bench = Bench()
    pending = bench.sequence.take(bench.outgoing())
    sends = bench.sends()
    Script([refusal(ResponseCode.SYSTEM_ERROR)]).run(sends.attempt_once(bench.sequence, pending))
    bench.clock.advance(ms=20_000)
    with pytest.raises(BrokerRefused, match="no"):
        Script([]).run(sends.settle_up_to(bench.sequence, pending))
    assert (bench.sequence.next, bench.sequence.pending) == (0, []), "its number is free again"


def test_what_never_left_may_go_elsewhere_and_gives_its_number_back() -> None:
    bench = Bench()
    for answer in (DOWN, refusal(ResponseCode.SERVICE_NOT_AVAILABLE)):
        pending = bench.sequence.take(bench.outgoing())
        bench.settle(pending, answer)
        assert isinstance(pending.error, NotSent)
        assert bench.sequence.next == 0


def test_a_refusal_is_the_end_and_gives_the_number_back() -> None:
    bench = Bench()
    pending = bench.sequence.take(bench.outgoing())
    bench.settle(pending, refusal(ResponseCode.MESSAGE_ILLEGAL))
    assert isinstance(pending.error, BrokerRefused)
    assert (bench.sequence.next, bench.sequence.producer_id) == (0, "p")


def test_a_message_in_doubt_keeps_its_number_and_goes_first() -> None:
    bench = Bench(renewable=False)
    old = bench.sequence.take(bench.outgoing(b"old"))
    bench.late(bench.sends().settle_up_to(bench.sequence, old))
    assert bench.sequence.recovering
    bench.deadline_s += 100
    script = Script([stored()])
    script.run(bench.sends().settle_all(bench.sequence))
    new = bench.sequence.take(bench.outgoing(b"new"))
    assert [command.body for command in script.commands] == [b"old"]
    assert (old.number, new.number) == (0, 1)


def test_one_that_was_cancelled_on_its_way_is_in_doubt() -> None:
    bench = Bench()
    pending = bench.sequence.take(bench.outgoing())
    plan = bench.sends().attempt_once(bench.sequence, pending)
    next(plan)  # it has left, and nobody waits for the answer any more
    assert pending.in_doubt
    assert bench.sequence.recovering
    assert bench.sequence.pending == [pending]


def test_many_under_way_are_settled_in_order() -> None:
    bench = Bench()
    sent = [bench.sequence.take(bench.outgoing(b"%d" % number)) for number in range(4)]
    bench.attempt_once(sent[0], stored())
    bench.attempt_once(sent[1], LOST)
    bench.attempt_once(sent[2], refusal(ResponseCode.SEQUENCE_GAP))
    bench.attempt_once(sent[3], refusal(ResponseCode.SEQUENCE_GAP))
    script = bench.settle(sent[3], stored(), stored(), stored())
    assert [command.body for command in script.commands] == [b"1", b"2", b"3"]
    assert all(pending.result for pending in sent)
    assert [marks(pending.outgoing) for pending in sent] == [("p", str(number)) for number in range(4)]


def test_when_one_is_refused_those_behind_it_go_under_a_new_name() -> None:
    """A copy of them may still be on its way with the old number, which would then be another's."""
    bench = Bench()
    sent = [bench.sequence.take(bench.outgoing(b"%d" % number)) for number in range(3)]
    bench.attempt_once(sent[0], refusal(ResponseCode.MESSAGE_ILLEGAL))
    bench.attempt_once(sent[1], LOST)
    bench.attempt_once(sent[2], refusal(ResponseCode.SEQUENCE_GAP))
    bench.settle(sent[2], refusal(ResponseCode.MESSAGE_ILLEGAL), stored(), stored())
    assert isinstance(sent[0].error, BrokerRefused)
    assert bench.sequence.producer_id != "p"
    assert [marks(pending.outgoing)[1] for pending in sent[1:]] == ["0", "1"]
    assert bench.sequence.next == 2


def test_a_broker_that_has_forgotten_us_is_met_under_a_new_name() -> None:
    bench = Bench(next_number=40)
    pending = bench.sequence.take(bench.outgoing())
    script = bench.settle(pending, refusal(ResponseCode.SEQUENCE_GAP), stored())
    assert pending.result is not None
    assert "PRODUCER_SEQ\x010" in script.commands[1].ext["i"]
    ours = Bench(next_number=40, renewable=False)
    pending = ours.sequence.take(ours.outgoing())
    ours.settle(pending, refusal(ResponseCode.SEQUENCE_GAP))
    assert isinstance(pending.error, BrokerRefused), "a name the user gave is the user's"


def test_a_broker_that_knows_no_numbers_is_not_relied_on() -> None:
    bench = Bench(next_number=None)
    with pytest.raises(BrokerRefused) as caught:
        Script([refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]).run(
            bench.sends().learn_next(bench.sequence)
        )
    assert "does not know idempotent producers" in caught.value.__notes__[0]
    Script([Command(code=0, ext={"nextSequence": "7", "oldestSequence": "0"})]).run(
        bench.sends().learn_next(bench.sequence)
    )
    assert bench.sequence.next == 7


def test_a_message_with_an_id_is_sent_again_until_it_is_answered() -> None:
    bench = Bench()
    named = bench.encoder.encode(Message("T", b"x", properties={"DEDUP_ID": "1"}))
    script = Script([SILENT, DOWN, stored()])
    script.run(bench.sends().by_id(with_producer_id(named, "p")))
    assert len(script.commands) == 3
    with pytest.raises(NotSent):
        Script([DOWN]).run(bench.sends().by_id(named))
    with pytest.raises(BrokerRefused):
        Script([refusal(ResponseCode.MESSAGE_ILLEGAL)]).run(bench.sends().by_id(named))
