"""What users put around publishing and consuming: measure it, change it, forbid it, try it again.

    class Timed(Middleware):
        def consume(self, context):
            began_s = time.monotonic()
            try:
                return (yield)              # the next middleware; the innermost is the listener
            finally:
                print(context.message.message_id, time.monotonic() - began_s)

    App(middlewares=[Timed()])              # also of consumers, producers and single listeners

A method is a generator, so one middleware serves threads and asyncio: it runs where the listener runs, or where the
send was called. What it yields, a driver below does:

    yield                   goes on inwards and brings the outcome (or the SendResult); raises what was raised there.
                            A second one goes there again.
    yield Pause(2)          waits without holding up others
    yield Within(5)         goes on, and raises TimeoutError after so many seconds (coroutines only)
    yield awaitable         awaits it and brings its value (coroutines only)

Order: of `[first, second]` first is outermost: before first, before second, listener, after second, after first. An
app's are around those of a listener. Decoding and dependencies are inside all of them. What a method raises goes to
the next one outwards, at last to the retry policy or to the sender. What it returns counts as the outcome; nothing
means the outcome it was given. One that returns without having gone on has dealt with the message by itself.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

from msgspec import structs

from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.outcome import Outcome
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import ClientError, ConfigError
from rocketeer.model.message import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Yielded by a middleware: wait so long, then go on with it."""

    seconds: float
    """Seconds to wait."""


@dataclass(frozen=True, slots=True)
class Within:
    """Yielded by a middleware: go on inwards, and raise TimeoutError there when it takes longer."""

    seconds: float
    """Seconds that it may take."""


Step: TypeAlias = Any
"""Nothing, Pause, Within or an awaitable; mypy would refuse a bare `yield` if this were their union."""
Consuming: TypeAlias = Generator[Step, Outcome, Outcome]
"""What `Middleware.consume` is annotated with."""
Publishing: TypeAlias = Generator[Step, SendResult | None, SendResult | None]
"""What `Middleware.publish` is annotated with."""


@dataclass(slots=True, eq=False)
class Context:
    """One call of a listener, for middlewares, dependencies and listeners that ask for it."""

    group: str
    """The consumer's group."""
    topic: str
    """As it was subscribed to."""
    listener: str
    """The function's name."""
    messages: Sequence[ReceivedMessage]
    """One, or with `consume_batch` over 1 several."""
    state: dict[str, Any] = field(default_factory=dict)
    """For whatever middlewares, dependencies and the listener tell each other."""

    @property
    def message(self) -> ReceivedMessage:
        """The first of `messages`."""
        return self.messages[0]

    @property
    def tries(self) -> int:
        """How often the message was given to a listener of the group, this time included."""
        return self.message.reconsume_times + 1


@dataclass(slots=True, eq=False)
class PublishContext:
    """One send: the messages may be replaced before it goes on."""

    group: str
    """The producer's group."""
    mode: SendMode
    """How they are sent."""
    messages: list[Message]
    """One, or a batch."""
    state: dict[str, Any] = field(default_factory=dict)
    """For whatever middlewares tell each other."""

    @property
    def message(self) -> Message:
        """The first of `messages`."""
        return self.messages[0]

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Give all messages these properties, beside those they have."""
        self.messages = [
            structs.replace(each, properties={**each.properties, **properties}) for each in self.messages
        ]


class Middleware:
    """Extend it and write `consume`, `publish` or both, each a generator that yields where the work is done.

    `for_coroutines` says that its `consume` works around `async def` listeners only: others are refused.
    """

    for_coroutines: ClassVar[bool] = False

    def consume(self, context: Context) -> Consuming:
        """Wrap every call of a listener."""
        outcome: Outcome = yield
        return outcome

    def publish(self, context: PublishContext) -> Publishing:
        """Wrap every send."""
        result: SendResult | None = yield
        return result


Around: TypeAlias = Callable[[Any], Generator[Step, Any, Any]]


def consuming(middlewares: Sequence[Middleware], listener: str = "", *, is_async: bool) -> tuple[Around, ...]:
    """The `consume` methods that do something; raises ConfigError for those that cannot be around the listener."""
    for each in middlewares:
        if isinstance(each, Middleware) and each.for_coroutines and not is_async:
            raise ConfigError(
                f"{type(each).__name__} works around coroutine functions only, and the listener {listener} is a "
                "plain function: write it `async def`"
            )
    return _methods(middlewares, "consume")


def publishing(middlewares: Sequence[Middleware]) -> tuple[Around, ...]:
    """The `publish` methods that do something."""
    return _methods(middlewares, "publish")


def _methods(middlewares: Sequence[Middleware], name: str) -> tuple[Around, ...]:
    found: list[Around] = []
    for each in middlewares:
        if not isinstance(each, Middleware):
            raise ConfigError(f"{each!r} is no middleware: extend rocketeer.Middleware, and give an instance")
        method = getattr(each, name)
        if getattr(method, "__func__", None) is getattr(Middleware, name):
            continue
        if not inspect.isgeneratorfunction(method):
            raise ConfigError(
                f"{type(each).__name__}.{name} does not yield: it is a generator function, and `yield` is where "
                f"{'the listener is called' if name == 'consume' else 'the message is sent'}"
            )
        found.append(method)
    return tuple(found)


# --- the two drivers -------------------------------------------------------------------------


def run_through(around: Sequence[Around], context: Any, inner: Callable[[], T]) -> T:
    """Call `inner` with the middlewares around it, in this thread."""
    if not around:
        return inner()
    steps = around[0](context)
    rest = around[1:]
    outcome: Any = None
    resume: Callable[[], Step] = lambda: next(steps)  # noqa: E731 the next thing to do with the generator
    while True:
        try:
            step = resume()
        except StopIteration as stop:
            return outcome if stop.value is None else stop.value  # type: ignore[no-any-return]
        try:
            if step is None:
                outcome = None
                answer = outcome = run_through(rest, context, inner)
            elif isinstance(step, Pause):
                time.sleep(step.seconds)
                answer = None
            else:
                if inspect.iscoroutine(step):
                    step.close()
                raise ClientError(f"{_name(around[0])} yields {step!r:.80}, which only works on asyncio")
        except BaseException as error:
            resume = _thrower(steps, error)
        else:
            resume = _sender(steps, answer)


async def run_through_async(around: Sequence[Around], context: Any, inner: Callable[[], Awaitable[T]]) -> T:
    """Await `inner` with the middlewares around it."""
    if not around:
        return await inner()
    steps = around[0](context)
    rest = around[1:]
    outcome: Any = None
    resume: Callable[[], Step] = lambda: next(steps)  # noqa: E731 the next thing to do with the generator
    while True:
        try:
            step = resume()
        except StopIteration as stop:
            return outcome if stop.value is None else stop.value  # type: ignore[no-any-return]
        try:
            if step is None:
                outcome = None
                answer = outcome = await run_through_async(rest, context, inner)
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                answer = None
            elif isinstance(step, Within):
                outcome = None
                async with asyncio.timeout(step.seconds):
                    answer = outcome = await run_through_async(rest, context, inner)
            elif inspect.isawaitable(step):
                answer = await step
            else:
                raise ClientError(
                    f"{_name(around[0])} yields {step!r:.80}: nothing, Pause, Within or an awaitable"
                )
        except BaseException as error:
            resume = _thrower(steps, error)
        else:
            resume = _sender(steps, answer)


def _thrower(steps: Generator[Step, Any, Any], error: BaseException) -> Callable[[], Step]:
    return lambda: steps.throw(error)


def _sender(steps: Generator[Step, Any, Any], answer: Any) -> Callable[[], Step]:
    return lambda: steps.send(answer)


def _name(method: Around) -> str:
    return getattr(method, "__qualname__", repr(method))
