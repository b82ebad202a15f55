"""Middlewares around publishing and consuming: their order, errors, and that one serves threads and asyncio alike."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, cast

import pytest

import rocketeer
from rocketeer import (
    RETRY,
    App,
    ClientError,
    ConfigError,
    Consuming,
    Context,
    Depends,
    Message,
    Middleware,
    Outcome,
    Pause,
    PublishContext,
    Publishing,
    ReceivedMessage,
    RetryPolicy,
)
from rocketeer.aio import Producer, PushConsumer
from rocketeer.client.core.middleware import consuming, run_through, run_through_async
from rocketeer.middlewares import (
    ErrorHook,
    Logging,
    MessageFields,
    OpenTelemetry,
    Prometheus,
    RateLimit,
    Timeout,
)
from support.cluster import ServerCluster
from support.consuming import make_topic, options, send, until


class Note(Middleware):
    """Writes down what it sees."""

    def __init__(self, name: str, story: list[str]) -> None:
        self.name = name
        self.story = story

    def consume(self, context: Context) -> Consuming:
        self.story.append(f"{self.name} before {context.message.text}")
        try:
            outcome = yield
        except Exception as error:
            self.story.append(f"{self.name} saw {error!r}")
            raise
        self.story.append(f"{self.name} after {outcome}")
        return outcome

    def publish(self, context: PublishContext) -> Publishing:
        self.story.append(f"{self.name} sends {context.message.body.decode()}")
        result = yield
        self.story.append(f"{self.name} sent")
        return result


def pass_on(*middlewares: Middleware, inner: Any, context: Any = None) -> list[Any]:
    """What comes out, in a thread and on asyncio: the value, or the error."""

    async def awaited() -> Any:
        await asyncio.sleep(0)
        return inner()

    async def on_loop() -> Any:
        return await run_through_async(consuming(middlewares, is_async=True), context, awaited)

    came: list[Any] = []
    for run in (
        lambda: run_through(consuming(middlewares, is_async=False), context, inner),
        lambda: asyncio.run(on_loop()),
    ):
        try:
            came.append(run())
        except Exception as error:
            came.append(repr(error))
    return came


def boom() -> Any:
    raise ValueError("boom")


def test_a_middleware_may_swallow_replace_skip_and_try_again() -> None:
    calls: list[int] = []

    class Swallow(Middleware):
        def consume(self, context: Context) -> Consuming:
            try:
                return (yield)
            except ValueError:
                return None

    class Raise(Middleware):
        def consume(self, context: Context) -> Consuming:
            try:
                return (yield)
            except ValueError as error:
                raise KeyError("other") from error

    class Skip(Middleware):
        def consume(self, context: Context) -> Consuming:
            if calls is not None:
                return None
            yield

    class Twice(Middleware):
        def consume(self, context: Context) -> Consuming:
            try:
                return (yield)
            except ValueError:
                yield Pause(0.001)
                return (yield)

    class Forgetful(Middleware):
        def consume(self, context: Context) -> Consuming:
            yield
            return None

    def second_time() -> Any:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError
        return RETRY

    assert pass_on(Swallow(), inner=boom) == [None, None]
    assert pass_on(Raise(), inner=boom) == ["KeyError('other')"] * 2
    assert pass_on(Swallow(), Raise(), inner=boom) == ["KeyError('other')"] * 2
    assert pass_on(Skip(), inner=boom) == [None, None]
    assert pass_on(Twice(), inner=second_time) == [RETRY, RETRY]
    assert len(calls) == 4
    assert pass_on(Forgetful(), inner=lambda: RETRY) == [RETRY, RETRY], (
        "a retry is not lost by forgetting to return it"
    )


def test_an_awaitable_is_awaited_on_asyncio_and_refused_in_threads() -> None:
    class Asks(Middleware):
        def consume(self, context: Context) -> Consuming:
            found = cast(Outcome, (yield asyncio.sleep(0, RETRY)))
            yield
            return found

    on_thread, on_loop = pass_on(Asks(), inner=lambda: None)
    assert on_loop == RETRY
    assert "only works on asyncio" in on_thread


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Note, "extend rocketeer.Middleware, and give an instance"),
        (3, "3 is no middleware"),
        (
            type("Plain", (Middleware,), {"consume": lambda self, context: None})(),
            "Plain.consume does not yield",
        ),
        (Timeout(1), "Timeout works around coroutine functions only, and the listener .*take"),
    ],
)
def test_what_cannot_be_a_middleware_is_refused_where_it_is_given(wrong: Any, text: str) -> None:
    consumer = PushConsumer("g", middlewares=[wrong])

    def take(message: ReceivedMessage) -> None: ...

    with pytest.raises(ConfigError, match=text):
        consumer.subscribe("T", take)


async def test_the_first_is_outermost_and_the_apps_are_around_the_listeners(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    story: list[str] = []
    app = App(middlewares=[Note("app", story), Note("second", story)], **options(cluster))

    @app.listener(
        topic, group=f"G-{topic}", middlewares=[Note("own", story)], retry=RetryPolicy(ignore=(OSError,))
    )
    def take(message: ReceivedMessage) -> None:
        story.append("listener")
        if message.text == "bad":
            raise OSError("no")

    async with app:
        app.producer.send(Message(topic, b"good"))
        await until(lambda: "app after None" in story)
        sends, story[:] = (
            sorted(each for each in story if "sen" in each),
            [each for each in story if "sen" not in each],
        )
        assert sends == ["app sends good", "app sent", "second sends good", "second sent"]
        assert story == [
            "app before good", "second before good", "own before good", "listener",
            "own after None", "second after None", "app after None",
        ]  # fmt: skip
        story.clear()
        app.producer.send(Message(topic, b"bad"))
        await until(lambda: len([each for each in story if "saw" in each]) == 3)
    assert [each for each in story if "saw" in each] == [
        f"{name} saw OSError('no')" for name in ("own", "second", "app")
    ]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_one_middleware_is_around_plain_and_coroutine_listeners_where_they_run(
    cluster: ServerCluster, topic: str, kind: str
) -> None:
    make_topic(cluster, topic, queues=1)
    threads: dict[str, int] = {}

    class Where(Middleware):
        def consume(self, context: Context) -> Consuming:
            threads["middleware"] = threading.get_ident()
            return (yield)

    consumer = PushConsumer(f"G-{topic}", middlewares=[Where()], **options(cluster))

    def plain(message: ReceivedMessage) -> None:
        threads["listener"] = threading.get_ident()

    async def coroutine(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        plain(message)

    consumer.subscribe(topic, plain if kind == "plain" else coroutine)
    await send(cluster, topic, ["one"])
    async with consumer:
        await until(lambda: "listener" in threads)
    assert threads["middleware"] == threads["listener"]
    assert (threads["listener"] == threading.get_ident()) is (kind == "coroutine")


class Stamp(Middleware):
    def publish(self, context: PublishContext) -> Publishing:
        context.add_properties({"stamp": f"{context.mode}-{len(context.messages)}"})
        return (yield)


class Refuse(Middleware):
    def publish(self, context: PublishContext) -> Publishing:
        raise PermissionError("not today")
        yield


class Nothing(Middleware):
    def publish(self, context: PublishContext) -> Publishing:
        if context.messages:
            return None
        yield


async def test_every_way_of_sending_goes_through_the_middlewares(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)

    def in_threads() -> None:
        with rocketeer.Producer("P", nameserver=cluster.namesrv, middlewares=[Stamp()]) as sync:
            sync.send(Message(topic, b"sync"))
            sync.send_async(topic, "future").result(20)
            sync.send_oneway(topic, "sync oneway")
        with rocketeer.TransactionProducer(
            f"TP-{topic}",
            nameserver=cluster.namesrv,
            check=lambda message: rocketeer.COMMIT,
            middlewares=[Stamp()],
        ) as transactions:
            transactions.send_in_transaction(
                Message(topic, b"transaction"), lambda transaction: rocketeer.COMMIT
            )
        with (
            rocketeer.Producer("P2", nameserver=cluster.namesrv, middlewares=[Refuse()]) as refusing,
            pytest.raises(PermissionError, match="not today"),
        ):
            refusing.send(Message(topic, b"never"))
        with (
            rocketeer.Producer("P3", nameserver=cluster.namesrv, middlewares=[Nothing()]) as silent,
            pytest.raises(ClientError, match="neither sent the message nor raised"),
        ):
            silent.send(Message(topic, b"never"))

    await asyncio.to_thread(in_threads)
    async with Producer("P4", nameserver=cluster.namesrv, middlewares=[Stamp()]) as producer:
        await asyncio.gather(*(producer.send(topic, f"aio {number}") for number in range(3)))
        await producer.send([Message(topic, b"batch 1"), Message(topic, b"batch 2")])
        await producer.send_oneway(topic, "oneway")
    stamps: dict[str, str | None] = {}
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic)
    def take(message: ReceivedMessage) -> None:
        stamps[message.text] = message.properties.get("stamp")

    async with consumer:
        await until(lambda: len(stamps) == 10)
    assert stamps == {
        "sync": "SYNC-1", "future": "ASYNC-1", "sync oneway": "ONEWAY-1", "transaction": "SYNC-1",
        "aio 0": "ASYNC-1", "aio 1": "ASYNC-1", "aio 2": "ASYNC-1",
        "batch 1": "ASYNC-2", "batch 2": "ASYNC-2", "oneway": "ONEWAY-1",
    }  # fmt: skip


# --- dependencies ----------------------------------------------------------------------------


def opened(context: Context) -> Iterator[list[str]]:
    log: list[str] = context.state.setdefault("log", [])
    log.append("open")
    try:
        yield log
    except OSError:
        log.append("rolled back")  # and swallowed: the message must not count as consumed for that
    else:
        log.append("committed")


def user_of(message: ReceivedMessage, log: Annotated[list[str], Depends(opened)]) -> str:
    log.append("user")
    return message.properties["user"]


async def fetched(log: list[str] = Depends(opened)) -> AsyncIterator[int]:
    log.append("fetch")
    yield 7
    log.append("fetched closed")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_dependencies_are_made_for_each_message_once_and_closed_behind_it(
    cluster: ServerCluster, topic: str, kind: str
) -> None:
    make_topic(cluster, topic, queues=1)
    logs: dict[str, list[str]] = {}
    seen: list[Any] = []

    class Keep(Middleware):
        def consume(self, context: Context) -> Consuming:
            try:
                return (yield)
            finally:
                logs[f"{context.message.text}-{context.tries}"] = context.state["log"]

    app = App(middlewares=[Keep()], **options(cluster))

    def plain(
        text: str,
        log: Annotated[list[str], Depends(opened)],
        user: Annotated[str, Depends(user_of)],
        context: Context,
        message: ReceivedMessage,
        limit: int = 5,
    ) -> None:
        log.append("listener")
        seen.append((text, user, context.tries, message.text, limit))
        if text == "bad" and context.tries == 1:
            raise OSError

    async def coroutine(
        text: str,
        context: Context,
        number: Annotated[int, Depends(fetched)],
        message: ReceivedMessage,
        log: list[str] = Depends(opened),
        user: str = Depends(user_of),
    ) -> None:
        assert number == 7
        plain(text, log, user, context, message)

    app.listener(topic, group=f"G-{topic}", retry=RetryPolicy(backoff=[0.1]))(
        plain if kind == "plain" else coroutine
    )
    await send(cluster, topic, ["good", "bad"], properties={"user": "ann"})
    async with app:
        await until(lambda: "bad-2" in logs)
    assert sorted(seen) == [
        ("bad", "ann", 1, "bad", 5),
        ("bad", "ann", 2, "bad", 5),
        ("good", "ann", 1, "good", 5),
    ]
    if kind == "plain":
        assert logs["good-1"] == ["open", "user", "listener", "committed"]
        assert logs["bad-1"] == ["open", "user", "listener", "rolled back"]
    else:
        assert logs["good-1"] == ["open", "fetch", "user", "listener", "fetched closed", "committed"]
        assert logs["bad-1"] == ["open", "fetch", "user", "listener", "rolled back"]


def test_what_a_listener_asks_for_and_nobody_knows_is_refused_where_it_is_declared() -> None:
    def unknown(message: ReceivedMessage, colour: str) -> None: ...
    def asynchronous(message: ReceivedMessage, number: int = Depends(fetched)) -> None: ...
    def round_about(message: ReceivedMessage, again: Any = Depends(lambda: None)) -> None: ...
    def turns(value: Any = None) -> None: ...
    def around(again: Any = Depends(turns)) -> None: ...

    turns.__defaults__ = (Depends(around),)
    round_about.__defaults__ = (Depends(turns),)
    app = App(group="g")
    with pytest.raises(ConfigError, match=r"unknown asks for 'colour', and nothing says what that is"):
        app.listener("T")(unknown)
    with pytest.raises(ConfigError, match=r"plain function and depends on fetched, which is asynchronous"):
        app.listener("T")(asynchronous)
    with pytest.raises(ConfigError, match=r"depends on itself"):
        app.listener("T")(round_about)


# --- those that come along -------------------------------------------------------------------


async def test_log_lines_tell_the_message_they_are_about(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    caplog.handler.addFilter(fields := MessageFields())
    shop = logging.getLogger("shop")
    ids: list[str] = []
    consumer = PushConsumer(f"G-{topic}", middlewares=[Logging()], **options(cluster))

    @consumer.subscribe(topic)
    def take(message: ReceivedMessage) -> None:
        shop.warning("something")
        ids.append(message.message_id)

    await send(cluster, topic, ["one"])
    with caplog.at_level(logging.INFO):
        async with consumer:
            await until(lambda: "consumed topic" in caplog.text)
        shop.warning("outside")
    caplog.handler.removeFilter(fields)
    told = {
        record.getMessage(): getattr(record, "message_id", "")
        for record in caplog.records
        if record.name == "shop"
    }
    assert told == {"something": ids[0], "outside": "-"}
    assert f"consumed topic={topic} group=G-{topic} id={ids[0]} count=1 tries=1" in caplog.text


async def test_errors_are_told_and_go_on(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    told: list[tuple[str, str]] = []

    def report(error: Exception, context: Context | PublishContext) -> None:
        told.append((repr(error), context.group))
        raise RuntimeError("the hook itself is broken")

    tries: list[int] = []
    consumer = PushConsumer(
        f"G-{topic}", middlewares=[ErrorHook(report, ignore=(KeyError,))], **options(cluster)
    )

    @consumer.subscribe(topic, retry=RetryPolicy(backoff=[0.1]))
    async def take(message: ReceivedMessage, context: Context) -> None:
        tries.append(context.tries)
        if context.tries == 1:
            raise OSError("disk")
        if context.tries == 2:
            raise KeyError("known")

    await send(cluster, topic, ["one"])
    async with consumer:
        await until(lambda: tries == [1, 2, 3])
    assert told == [("OSError('disk')", f"G-{topic}")]


async def test_a_listener_over_its_time_is_cancelled_and_tried_again(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    story: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic, middlewares=[Timeout(0.05)], retry=RetryPolicy(backoff=[0.1]))
    async def take(message: ReceivedMessage, context: Context) -> None:
        try:
            await asyncio.sleep(60 if context.tries == 1 else 0)
            story.append("done")
        except asyncio.CancelledError:
            story.append("cancelled")
            raise

    await send(cluster, topic, ["one"])
    async with consumer:
        await until(lambda: "done" in story)
    assert story == ["cancelled", "done"]


def test_a_rate_holds_whoever_asks() -> None:
    now_s = [100.0]
    limit = RateLimit(consume=10, burst=3, now_s=lambda: now_s[0])

    def waits() -> float:
        step = next(limit.consume(cast(Context, None)))
        assert isinstance(step, Pause)
        return round(step.seconds, 3)

    assert [waits() for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]
    now_s[0] += 0.6
    assert [waits() for _ in range(4)] == [0, 0, 0, 0.1]
    now_s[0] += 60
    assert [waits() for _ in range(4)] == [0, 0, 0, 0.1]
    with pytest.raises(ConfigError, match="limits nothing"):
        RateLimit()


async def test_sends_over_the_rate_wait(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    async with Producer("P", nameserver=cluster.namesrv, middlewares=[RateLimit(publish=20)]) as producer:
        began_s = time.monotonic()
        await asyncio.gather(*(producer.send(topic, "x") for _ in range(5)))
        assert time.monotonic() - began_s >= 0.19


async def test_prometheus_counts_and_times(cluster: ServerCluster, topic: str) -> None:
    from prometheus_client import CollectorRegistry

    make_topic(cluster, topic, queues=1)
    registry = CollectorRegistry()
    figures = Prometheus(registry)
    app = App(middlewares=[figures], **options(cluster))
    group = f"G-{topic}"

    @app.listener(topic, group=group, retry=RetryPolicy(ignore=(OSError,)))
    def take(text: str) -> Outcome:
        if text == "bad":
            raise OSError
        return None

    def figure(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"rocketeer_app_{name}", {"topic": topic, **labels})

    async with app:
        for body in ("good", "bad", "good"):
            app.producer.send(topic, body)
        await until(lambda: figure("consume_seconds_count", group=group) == 3)
        assert figure("consumed_total", group=group, outcome="success") == 2
        assert figure("consumed_total", group=group, outcome="error") == 1
        assert figure("consuming", group=group) == 0
        assert figure("published_total", outcome="success") == 3
        assert figure("publish_seconds_count") == 3


async def test_a_trace_goes_from_the_sender_to_the_listener(cluster: ServerCluster, topic: str) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    make_topic(cluster, topic, queues=1)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans := InMemorySpanExporter()))
    tracer = provider.get_tracer("test")
    app = App(middlewares=[OpenTelemetry(provider)], **options(cluster))
    carried: list[str] = []

    @app.listener(topic, group=f"G-{topic}")
    def take(text: str, message: ReceivedMessage) -> None:
        carried.append(message.properties["traceparent"])
        with tracer.start_as_current_span("work"):
            pass

    async with app:
        with tracer.start_as_current_span("request"):
            app.producer.send(topic, "one")
            app.producer.send_async(topic, "two").result(20)
        await until(lambda: len(spans.get_finished_spans()) == 7)
    found: dict[str, list[Any]] = {}
    for span in spans.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    (request,) = found["request"]
    sends, processes, works = found[f"send {topic}"], found[f"process {topic}"], found["work"]
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1
    assert {span.parent.span_id for span in sends} == {request.context.span_id}
    assert {span.parent.span_id for span in processes} == {span.context.span_id for span in sends}
    assert {span.parent.span_id for span in works} == {span.context.span_id for span in processes}
    assert {each.split("-")[2] for each in carried} == {f"{span.context.span_id:016x}" for span in sends}
    assert processes[0].attributes["messaging.consumer.group.name"] == f"G-{topic}"


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for library, make, extra in (
        ("opentelemetry", OpenTelemetry, "otel"),
        ("prometheus_client", Prometheus, "prometheus"),
    ):
        for name in [each for each in sys.modules if each.partition(".")[0] == library]:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ModuleNotFoundError, match=rf"pip install 'rocketeer\[{extra}\]'"):
            make()


async def test_what_a_send_returns_is_a_result_whatever_its_middlewares_return(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)

    class Wrong(Middleware):
        def publish(self, context: PublishContext) -> Any:
            yield
            return "sent"

    text = "a middleware's publish returned 'sent': it returns a SendResult, or nothing"
    async with Producer("P", nameserver=cluster.namesrv, middlewares=[Wrong()]) as producer:
        with pytest.raises(ClientError, match=text):
            await producer.send(Message(topic, b"x"))
        await producer.send_oneway(Message(topic, b"x"))
    with rocketeer.Producer("P", nameserver=cluster.namesrv, middlewares=[Wrong()]) as threads:
        with pytest.raises(ClientError, match=text):
            threads.send(Message(topic, b"x"))
        with pytest.raises(ClientError, match=text):
            threads.send_async(Message(topic, b"x")).result(20)
