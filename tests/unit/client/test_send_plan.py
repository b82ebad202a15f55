"""The rules of sending, 4.9.8's, in microseconds: every answer is scripted, time is the clock's."""

from collections.abc import Callable
from typing import Any

import pytest

from rocketeer.client.aio.idempotent import IdempotentSender
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.hooks import SendContext, SendMode
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.selectors import by_hash
from rocketeer.client.core.send_result import SendStatus
from rocketeer.client.plans.effects import Call, Plan, Sleep
from rocketeer.client.plans.recall import recall_plan
from rocketeer.client.plans.send import Sender, chooser
from rocketeer.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    NoBroker,
    SendFailed,
    SendTimeout,
)
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import decode_header, encode_header
from rocketeer.protocol.headers.send import SendMessageV2Header
from rocketeer.protocol.recall_handle import RecallHandle
from rocketeer.record.ids import UniqKeys
from support.bodies import encode_route
from support.clock import ManualClock
from support.plans import Answer, Script

NAMES = ("a", "b", "c")
DOWN = ConnectFailed("x:1", "refused")


def stored(code: int = 0) -> Command:
    return Command(code=code, ext={"msgId": "AB", "queueId": "2", "queueOffset": "7"})


def refusal(code: int, remark: str = "no") -> Command:
    return Command(code=code, remark=remark)


class Bench:
    """A sender over brokers a, b and c with two queues each, and a clock that calls may move."""

    def __init__(self, brokers: int = 3, hooks: tuple[object, ...] = (), **options: object) -> None:
        self.config = ProducerConfig("shop", **options)  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.routes = RouteCache()
        names = NAMES[:brokers]
        self.routes.put(
            self.config.full_topic("T"),
            Route(
                tuple(QueueData(name, 2, 2, 6) for name in names),
                tuple(BrokerData("c", name, {0: f"{name}:10911"}) for name in names),
            ),
        )
        self.sender = Sender(self.config, self.routes, NameServers(["ns:1"]), self.clock, hooks)  # type: ignore[arg-type]
        self.encoder = Encoder(self.config, UniqKeys("127.0.0.1", 1, self.clock))

    def outgoing(self) -> Outgoing:
        return self.encoder.encode(Message("T", b"hello", tags="x"))

    def slow(self, *answers: tuple[int, Answer]) -> Callable[[Call], Answer]:
        """Answers that take their ms."""
        left = list(answers)

        def play(call: Call) -> Answer:
            ms, answer = left.pop(0)
            self.clock.advance(ms=ms)
            return answer

        return play


def test_a_stored_message_brings_its_place() -> None:
    bench = Bench()
    result = Script([stored()]).run(bench.sender.send(bench.outgoing()))
    assert result is not None
    assert result.ok
    assert (result.offset_message_id, result.queue_offset) == ("AB", 7)
    assert result.queue.queue_id == 2
    assert len(result.message_id) == 32


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
def test_stored_less_safely_is_a_result_not_an_error(code: int, status: SendStatus) -> None:
    bench = Bench()
    result = Script([stored(code)]).run(bench.sender.send(bench.outgoing()))
    assert result is not None
    assert result.status is status


def test_queues_take_turns_over_all_brokers() -> None:
    bench = Bench()
    script = Script(lambda call: stored())
    for _ in range(12):
        script.run(bench.sender.send(bench.outgoing()))
    used = [(command.ext["n"], command.ext["e"]) for command in script.commands]
    assert sorted(used) == sorted([(name, queue) for name in NAMES for queue in "01"] * 2)


def test_a_retry_goes_to_another_broker() -> None:
    bench = Bench(brokers=2)
    script = Script([DOWN, DOWN, stored()])
    script.run(bench.sender.send(bench.outgoing()))
    first, second, third = script.addresses
    assert first != second
    assert second != third


def test_a_single_broker_is_tried_again() -> None:
    bench = Bench(brokers=1)
    script = Script([DOWN, stored()])
    assert script.run(bench.sender.send(bench.outgoing())) is not None
    assert script.addresses == ["a:10911", "a:10911"]


def test_brokers_that_cannot_be_reached_are_tried_until_the_time_is_over() -> None:
    bench = Bench(send_timeout_s=3)
    script = Script(lambda call: DOWN, bench.clock)
    with pytest.raises(SendFailed, match=r"\d+ attempts failed within 3 s") as raised:
        script.run(bench.sender.send(bench.outgoing()))
    assert raised.value.__cause__ is DOWN
    assert len(raised.value.attempts) == 10
    pauses_s = [effect.seconds for effect in script.effects if isinstance(effect, Sleep)]
    assert pauses_s[:5] == [0.05, 0.1, 0.2, 0.3, 0.3], "all brokers first, then a pause that grows"
    assert len(script.addresses) == 3 * (len(pauses_s))
    assert sum(pauses_s) == pytest.approx(3)


def test_a_broker_that_restarts_within_the_time_takes_the_message() -> None:
    bench = Bench(brokers=1)
    began_s = bench.clock.monotonic_s()
    script = Script(lambda call: DOWN if bench.clock.monotonic_s() < began_s + 2 else stored(), bench.clock)
    for mode in (SendMode.SYNC, SendMode.ASYNC):
        assert script.run(bench.sender.send(bench.outgoing(), mode)) is not None


def test_without_retries_there_is_one_attempt() -> None:
    bench = Bench(retries=0)
    with pytest.raises(SendFailed, match="1 attempt failed"):
        Script([DOWN]).run(bench.sender.send(bench.outgoing()))


def test_attempts_that_may_have_been_stored_are_as_many_as_rocketmqs() -> None:
    bench = Bench()
    lost = ConnectionLost("x:1")
    script = Script([lost, DOWN, lost, lost])
    with pytest.raises(SendFailed, match="4 attempts failed"):
        script.run(bench.sender.send(bench.outgoing()))


def test_a_sharding_key_chooses_the_queue_by_itself() -> None:
    bench = Bench()
    script = Script(lambda call: stored())
    message = Message("T", b"x", sharding_key="order-7")
    for _ in range(5):
        script.run(bench.sender.send(bench.encoder.encode(message), choose=chooser(message)))
    by_selector = chooser(message, None, by_hash, None)
    script.run(bench.sender.send(bench.encoder.encode(message), choose=by_selector))
    assert len({(command.ext["n"], command.ext["e"]) for command in script.commands}) == 1
    with pytest.raises(InvalidMessage, match="different sharding keys: 'a', 'b'"):
        chooser([Message("T", b"x", sharding_key="a"), Message("T", b"x", sharding_key="b")])


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_send_without_any_time_is_refused_by_name(timeout_s: float) -> None:
    bench = Bench()
    with pytest.raises(ClientError, match=f"timeout_s is {timeout_s:g}: "):
        Script([]).run(bench.sender.send(bench.outgoing(), timeout_s=timeout_s))


@pytest.mark.parametrize(
    "code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION]
)
def test_a_refusal_another_broker_may_not_share_is_retried(code: int) -> None:
    bench = Bench()
    script = Script([refusal(code), stored()])
    assert script.run(bench.sender.send(bench.outgoing())) is not None
    assert len(script.effects) == 2


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_BUSY])
def test_other_refusals_reach_the_sender_with_code_text_broker_and_queue(code: int) -> None:
    bench = Bench()
    with pytest.raises(BrokerRefused, match="too bad") as raised:
        Script([refusal(code, "too bad")]).run(bench.sender.send(bench.outgoing()))
    assert raised.value.code == code
    assert raised.value.broker.startswith(NAMES)
    assert isinstance(raised.value.queue, MessageQueue)
    assert ResponseCode(code).name in str(raised.value)


def test_the_last_refusal_is_raised_when_all_brokers_refuse() -> None:
    bench = Bench()
    no = refusal(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerRefused) as raised:
        Script([no, no, no]).run(bench.sender.send(bench.outgoing()))
    assert len(raised.value.__notes__) == 2


def test_all_attempts_share_one_time_limit() -> None:
    bench = Bench(send_timeout_s=3)
    script = Script(bench.slow((1000, DOWN), (1500, DOWN), (0, stored())))
    script.run(bench.sender.send(bench.outgoing()))
    assert [e.timeout_s for e in script.effects if isinstance(e, Call)] == [3, 2, 0.5]


def test_when_the_time_is_over_nothing_more_is_tried() -> None:
    bench = Bench(send_timeout_s=3)
    script = Script(bench.slow((3000, CallTimeout("x:1", 310, 3)), (0, stored())))
    with pytest.raises(SendTimeout, match="within 3 s"):
        script.run(bench.sender.send(bench.outgoing()))
    assert len(script.effects) == 1


def test_a_time_limit_given_with_the_send_counts() -> None:
    bench = Bench()
    script = Script([stored()])
    script.run(bench.sender.send(bench.outgoing(), timeout_s=0.25))
    assert [e.timeout_s for e in script.effects if isinstance(e, Call)] == [0.25]


def test_not_stored_safely_is_retried_only_when_asked_for() -> None:
    bench = Bench(retry_not_stored=True)
    unsafe = stored(ResponseCode.FLUSH_DISK_TIMEOUT)
    script = Script([unsafe, stored()])
    result = script.run(bench.sender.send(bench.outgoing()))
    assert result is not None
    assert result.ok
    last = Script([unsafe, unsafe, unsafe]).run(bench.sender.send(bench.outgoing()))
    assert last is not None
    assert last.status is SendStatus.FLUSH_DISK_TIMEOUT


def test_an_async_send_retries_calls_without_answer_on_another_broker() -> None:
    bench = Bench()
    script = Script([DOWN, DOWN, stored()])
    assert script.run(bench.sender.send(bench.outgoing(), SendMode.ASYNC)) is not None
    assert script.addresses[0] != script.addresses[1] != script.addresses[2]


def test_an_async_send_does_not_retry_refusals() -> None:
    bench = Bench()
    with pytest.raises(BrokerRefused):
        Script([refusal(ResponseCode.SYSTEM_ERROR)]).run(bench.sender.send(bench.outgoing(), SendMode.ASYNC))


def test_a_chosen_queue_is_kept_sync_once_async_with_retries() -> None:
    bench = Bench()
    wanted = MessageQueue("T", "b", 1)
    choose = chooser(Message("T", b"x"), wanted, None, None)
    with pytest.raises(SendFailed):
        Script([ConnectionLost("b:10911")]).run(bench.sender.send(bench.outgoing(), choose=choose))
    script = Script([DOWN, DOWN, stored()])
    script.run(bench.sender.send(bench.outgoing(), SendMode.ASYNC, choose=choose))
    assert script.addresses == ["b:10911"] * 3
    assert {command.ext["e"] for command in script.commands} == {"1"}


def test_a_selector_gets_all_queues_the_message_and_the_argument() -> None:
    bench = Bench(namespace="ns")
    message = Message("T", b"x")
    seen: list[object] = []

    def last(queues: object, message: Message, arg: object) -> MessageQueue:
        seen.extend([message, arg])
        assert isinstance(queues, tuple)
        assert {queue.topic for queue in queues} == {"T"}, "the namespace is not the user's business"
        return queues[-1]  # type: ignore[no-any-return]

    script = Script([stored()])
    choose = chooser(message, None, last, 42)
    result = script.run(bench.sender.send(bench.encoder.encode(message), choose=choose))
    assert seen == [message, 42]
    assert (script.commands[0].ext["b"], script.commands[0].ext["n"]) == ("ns%T", "c")
    assert result is not None
    assert result.queue.topic == "T"


def test_a_selector_that_returns_no_queue_is_told_so() -> None:
    bench = Bench()
    choose = chooser(Message("T", b"x"), None, lambda queues, message, arg: 3, None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ClientError, match="selector returned 3"):
        Script([]).run(bench.sender.send(bench.outgoing(), choose=choose))


def test_a_queue_of_an_unknown_broker_is_refused_by_name() -> None:
    bench = Bench()
    choose = chooser(Message("T", b"x"), MessageQueue("T", "nobody", 0), None, None)
    with pytest.raises(NoBroker, match="nobody"):
        Script([]).run(bench.sender.send(bench.outgoing(), choose=choose))


def test_a_topic_without_a_writable_queue_is_refused() -> None:
    bench = Bench()
    read_only = Route((QueueData("a", 2, 2, 4),), (BrokerData("c", "a", {0: "a:10911"}),))
    bench.routes.put("T", read_only)
    answer = Command(code=0, body=encode_route(read_only, strict=True))
    with pytest.raises(NoBroker, match="written to"):
        Script([answer]).run(bench.sender.send(bench.outgoing()))


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_guessed_queue_that_is_refused_has_the_route_asked_for_again(rounds: int) -> None:
    """A retry topic of one queue was there, but its broker had not told the name server yet: every attempt went to a
    queue of the four that the default topic would have had."""
    bench = Bench(brokers=1)
    bench.routes.drop("T")
    default = Route((QueueData("a", 8, 8, 7),), (BrokerData("c", "a", {0: "a:10911"}),))
    own = Route((QueueData("a", 1, 1, 6),), (BrokerData("c", "a", {0: "a:10911"}),))
    registered_after = rounds + 1  # looks at the name server
    looks = 0
    refusals = 0

    def play(call: Call) -> Answer:
        nonlocal looks, refusals
        if call.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if call.command.ext["topic"] != "T":
                return Command(code=0, body=encode_route(default, strict=True))
            looks += 1
            if looks < registered_after:
                return refusal(ResponseCode.TOPIC_NOT_EXIST)
            return Command(code=0, body=encode_route(own, strict=True))
        if looks < registered_after:
            refusals += 1
            return refusal(ResponseCode.SYSTEM_ERROR, "request queueId is illegal")
        assert call.command.ext["e"] == "0"
        return stored()

    script = Script(play, bench.clock)
    result = script.run(bench.sender.send(bench.outgoing()))
    assert result is not None
    assert result.ok
    assert refusals == rounds
    assert [effect for effect in script.effects if isinstance(effect, Sleep)] == [Sleep(0.05)] * rounds


def test_while_no_name_server_answers_a_refused_guess_is_tried_on() -> None:
    bench = Bench(brokers=1)
    guess = Route((QueueData("a", 4, 4, 7),), (BrokerData("c", "a", {0: "a:10911"}),))
    bench.routes.put("T", guess, guessed=True)
    answers = [refusal(ResponseCode.SYSTEM_ERROR), stored()]

    def play(call: Call) -> Answer:
        return DOWN if call.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC else answers.pop(0)

    result = Script(play, bench.clock).run(bench.sender.send(bench.outgoing()))
    assert result is not None
    assert result.ok
    known = bench.routes.get("T")
    assert known is not None
    assert known.guessed


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_refused_guess_has_the_route_fetched_soon_by_whoever_chose_the_queue(is_chosen: bool) -> None:
    bench = Bench(brokers=1)
    guess = Route((QueueData("a", 4, 4, 7),), (BrokerData("c", "a", {0: "a:10911"}),))
    bench.routes.put("T", guess, guessed=True)
    suspects: list[str] = []
    bench.routes.on_suspect.append(suspects.append)

    def play(call: Call) -> Answer:
        route = call.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        return refusal(ResponseCode.TOPIC_NOT_EXIST if route else ResponseCode.SYSTEM_ERROR)

    choose = chooser(Message("T", b"x"), MessageQueue("T", "a", 3)) if is_chosen else None
    with pytest.raises(BrokerRefused):
        Script(play, bench.clock).run(bench.sender.send(bench.outgoing(), choose=choose))
    assert suspects == ["T"] * (1 if is_chosen else 3)


def test_a_guess_that_is_always_refused_is_refused_as_often_as_any_send() -> None:
    bench = Bench(brokers=1)
    bench.routes.drop("T")
    default = Route((QueueData("a", 8, 8, 7),), (BrokerData("c", "a", {0: "a:10911"}),))

    def play(call: Call) -> Answer:
        if call.command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return refusal(ResponseCode.SYSTEM_ERROR)
        if call.command.ext["topic"] == "T":
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        return Command(code=0, body=encode_route(default, strict=True))

    script = Script(play, bench.clock)
    with pytest.raises(BrokerRefused):
        script.run(bench.sender.send(bench.outgoing()))
    assert script.addresses.count("a:10911") == 3


def test_oneway_asks_once_and_brings_nothing() -> None:
    bench = Bench()
    script = Script([])
    assert script.run(bench.sender.send(bench.outgoing(), SendMode.ONEWAY)) is None
    assert len(script.effects) == 1


def test_a_broker_that_does_not_answer_makes_the_route_suspect() -> None:
    bench = Bench()
    suspects: list[str] = []
    bench.routes.on_suspect.append(suspects.append)
    Script([DOWN, stored()]).run(bench.sender.send(bench.outgoing()))
    assert suspects == ["T"]


def test_slow_brokers_are_kept_away_from() -> None:
    bench = Bench(latency_faults=True)
    script = Script(bench.slow((600, stored()), *[(0, stored())] * 12))
    for _ in range(13):
        script.run(bench.sender.send(bench.outgoing()))
    slow = script.addresses[0]
    assert slow not in script.addresses[1:]
    bench.clock.advance(ms=30_000)
    more = Script(lambda call: stored())
    for _ in range(6):
        more.run(bench.sender.send(bench.outgoing()))
    assert slow in more.addresses


def test_hooks_see_every_attempt_and_may_add_properties() -> None:
    seen: list[tuple[str, str]] = []

    class Hook:
        def before_send(self, context: SendContext) -> None:
            context.outgoing.properties["trace"] = "on"
            seen.append(("before", context.queue.broker_name))

        def after_send(self, context: SendContext) -> None:
            seen.append(
                ("after", "error" if context.error else str(context.result and context.result.status))
            )
            raise RuntimeError("a broken hook harms nobody")

    bench = Bench(hooks=(Hook(),))
    script = Script([DOWN, stored()])
    assert script.run(bench.sender.send(bench.outgoing())) is not None
    assert [what for what, _ in seen] == ["before", "after", "before", "after"]
    assert [how for what, how in seen if what == "after"] == ["error", "SEND_OK"]
    assert "trace\x01on" in script.commands[0].ext["i"]


def test_a_hook_may_forbid_a_send() -> None:
    class Forbids:
        def before_send(self, context: SendContext) -> None:
            raise PermissionError(context.outgoing.topic)

        def after_send(self, context: SendContext) -> None: ...

    bench = Bench(hooks=(Forbids(),))
    with pytest.raises(PermissionError, match="T"):
        Script([]).run(bench.sender.send(bench.outgoing()))


def test_the_vip_channel_is_the_port_less_two() -> None:
    bench = Bench(vip_channel=True, brokers=1)
    script = Script([stored()])
    script.run(bench.sender.send(bench.outgoing()))
    assert script.addresses == ["a:10909"]


def test_the_hand_written_header_is_the_typed_one() -> None:
    bench = Bench(unit_mode=True)
    outgoing = bench.outgoing()
    outgoing.max_reconsume_times = 3
    command = bench.sender.request(outgoing, MessageQueue("T", "a", 1))
    assert encode_header(decode_header(SendMessageV2Header, command.ext)) == command.ext


async def test_an_idempotent_send_waits_for_the_election_when_no_member_leads_yet() -> None:
    """The group's leader has left, and its name server knows slaves only: as plain sends do, it waits within its time."""
    bench = Bench()
    queues = (QueueData("a", 2, 2, 6),)
    leaderless = Route(queues, (BrokerData("c", "a", {2: "b:10911"}),))
    led = Route(queues, (BrokerData("c", "a", {0: "b:10911"}),))
    told = [leaderless, leaderless, led]
    bench.routes.put("T", leaderless)

    def play(call: Call) -> Answer:
        if call.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return Command(code=0, body=encode_route(told.pop(0), strict=True))
        if call.command.code == RequestCode.GET_PRODUCER_SEQUENCE:
            return Command(code=0, ext={"nextSequence": "0", "oldestSequence": "0"})
        return stored()

    script = Script(play, bench.clock)

    async def run(plan: Plan[Any]) -> Any:
        return script.run(plan)

    sender = IdempotentSender(bench.sender, run, "orders-1")
    result = await sender.send(bench.outgoing(), None, 10.0)
    assert result.ok
    assert told == []


async def test_a_producer_that_starts_at_a_member_which_leads_no_longer_asks_the_next_leader() -> None:
    """Its routes are old: whoever led is a follower now, and does not say where the producer stands."""
    bench = Bench()
    queues = (QueueData("a", 2, 2, 6),)
    led = Route(queues, (BrokerData("c", "a", {0: "b:10911", 1: "a:10911"}),))
    bench.routes.put("T", Route(queues, (BrokerData("c", "a", {0: "a:10911"}),)))
    bench.routes.on_suspect.append(lambda topic: bench.routes.put(topic, led))  # as a client's instance does
    asked: list[str] = []

    def play(call: Call) -> Answer:
        if call.command.code == RequestCode.GET_PRODUCER_SEQUENCE:
            asked.append(call.address)
            if call.address == "a:10911":
                return refusal(ResponseCode.SERVICE_NOT_AVAILABLE)
            return Command(code=0, ext={"nextSequence": "5", "oldestSequence": "0"})
        return stored()

    script = Script(play, bench.clock)

    async def run(plan: Plan[Any]) -> Any:
        return script.run(plan)

    sender = IdempotentSender(bench.sender, run, "orders-1")
    result = await sender.send(bench.outgoing(), None, 10.0)
    assert result.ok
    assert asked == ["a:10911", "b:10911"]


@pytest.mark.parametrize(
    ("answer", "suspected"),
    [
        (refusal(ResponseCode.SERVICE_NOT_AVAILABLE), ["T"]),
        (ConnectionLost("a:10911"), ["T"]),
        (refusal(ResponseCode.ILLEGAL_OPERATION), []),
    ],
    ids=["not led", "lost", "delivered"],
)
def test_a_recall_at_a_member_which_leads_no_longer_has_routes_read_again(
    answer: Answer, suspected: list[str]
) -> None:
    bench = Bench()
    found: list[str] = []
    bench.routes.on_suspect.append(found.append)
    handle = RecallHandle("T", "a", 1_700_000_000_000, "AB").encode()
    with pytest.raises((BrokerRefused, ConnectionLost)):
        Script([answer]).run(recall_plan(bench.sender, handle, 3.0))
    assert found == suspected


LEADERLESS = BrokerData("c", "a", {2: "a:10931"})
LED_AGAIN = BrokerData("c", "a", {0: "a:10931"})
ALONE = BrokerData("c", "b", {0: "b:10911"})


def route_of(*brokers: BrokerData) -> Route:
    return Route(tuple(QueueData(broker.broker_name, 2, 2, 6) for broker in brokers), brokers)


@pytest.mark.parametrize("mode", [SendMode.SYNC, SendMode.ASYNC])
@pytest.mark.parametrize("meanwhile", [(LEADERLESS, ALONE), (ALONE,)], ids=["election", "restart"])
def test_a_named_queue_whose_broker_is_away_is_waited_for(
    mode: SendMode, meanwhile: tuple[BrokerData, ...]
) -> None:
    """Another broker of the topic is up all the time: the queue was named, so it is no substitute."""
    bench = Bench(brokers=2)
    bench.routes.put("T", route_of(*meanwhile))
    bench.routes.forget_lost_brokers()
    suspected: list[str] = []

    def comes_back(topic: str) -> None:
        suspected.append(topic)
        if len(suspected) == 3:  # the name servers were asked, and say so now
            bench.routes.put("T", route_of(LED_AGAIN, ALONE))

    bench.routes.on_suspect.append(comes_back)
    script = Script([stored()], bench.clock)
    choose = chooser(Message("T", b"x"), MessageQueue("T", "a", 1))
    result = script.run(bench.sender.send(bench.outgoing(), mode, choose=choose))
    assert result is not None
    assert result.ok
    assert suspected == ["T"] * 3
    assert script.addresses == ["a:10931"]


def test_a_named_queue_whose_broker_stays_away_costs_the_sends_time_and_no_more() -> None:
    bench = Bench(brokers=2, send_timeout_s=3)
    bench.routes.put("T", route_of(LEADERLESS, ALONE))
    choose = chooser(Message("T", b"x"), MessageQueue("T", "a", 1))
    began_s = bench.clock.monotonic_s()
    with pytest.raises(NoBroker, match="a is not known, or has no master"):
        Script([], bench.clock).run(bench.sender.send(bench.outgoing(), choose=choose))
    assert bench.clock.monotonic_s() - began_s == pytest.approx(3, abs=0.01)


def test_without_retries_a_named_queue_whose_broker_is_away_is_refused_at_once() -> None:
    bench = Bench(brokers=2, retries=0)
    bench.routes.put("T", route_of(LEADERLESS, ALONE))
    choose = chooser(Message("T", b"x"), MessageQueue("T", "a", 1))
    script = Script([], bench.clock)
    with pytest.raises(NoBroker, match="a is not known, or has no master"):
        script.run(bench.sender.send(bench.outgoing(), choose=choose))
    assert script.effects == []
