"""What a feature may contribute to the broker; `assemble.py` concatenates the lists in a written order."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.engine.sends import StoredIds
from rocketeer.model.offsets import LogOffset
from rocketeer.observe.exposition import Page
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.record.skip import Wanted
from rocketeer.remoting.router import Brake, Guard, Handler
from rocketeer.security.access import AccessControl
from rocketeer.steps import Steps
from rocketeer.store.dispatch import Dispatcher as Dispatcher

Rewrite = Callable[[PendingMessage], None]
"""Changes a message in place before it is appended (a delayed message moves to its level's queue)."""

Roll = Callable[[LogOffset], bool]
"""Rolls forward: the log below the given offset will soon be deleted, so what a feature still needs from there
(a pending timer, a half message) is appended again. One call does a bounded slice, a few milliseconds; it
returns True once the feature needs nothing below the offset any more. Called again until all return True."""

ReplyField = Callable[[str, DispatchEntry], Mapping[str, str]]
"""Adds fields to the reply of a send that took the general path: (the topic asked for, what was stored)."""


class Examined(Protocol):
    """What a feature found about the messages of one send."""

    @property
    def fresh(self) -> Sequence[int]:
        """The places of those that are not stored yet, in order."""
        ...

    def holds(self) -> bool:
        """Whether what was found is still so: others may have stored the same meanwhile."""
        ...

    def stored(self, entries: Sequence[DispatchEntry]) -> Sequence[DispatchEntry]:
        """The fresh ones are stored now, so: remember them. Returns the entries of all, old and new."""
        ...


Examine = Callable[[str, int, Sequence[tuple[bytes, bytes]]], Steps[Examined | None]]
"""Finds what was stored already: (topic, queue id, properties and body of each message) as their producer sent them,
before any rewrite. None when no message concerns the feature; RequestRefused for what must not be stored."""

Durability = Callable[[LogOffset, Callable[[int], None]], None]
"""Calls back with a response code once the log below the given offset is safe in this feature's sense."""


SetBrake = Callable[[Brake | None], None]
"""Has every request seen by the brake from now on; None: by nobody, and the fast path is open again."""


class Table(Protocol):
    """State that is persisted as one file under config/ (and can be replicated to a slave)."""

    file_name: str

    def encode(self) -> str: ...

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        """True when something changed since the last call."""
        ...


class Rest:
    """A service with nothing to do runs more seldom, so that an idle broker costs next to nothing."""

    def __init__(self, is_idle: Callable[[], bool], interval_s: float) -> None:
        self.is_idle = is_idle
        self.interval_s = interval_s
        self.on_wake: list[Callable[[], None]] = []

    def wake(self) -> None:
        """End it: what came cannot wait until it is over."""
        for woken in self.on_wake:
            woken()


@dataclass(frozen=True)
class Periodic:
    """A service: `run` is called on the loop every `interval_s`; an exception is logged and does not stop it."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None] | None]
    rest: Rest | None = None


class Runner(Protocol):
    """A part with a life of its own, beside the services: a port that listens, a connection that is kept up."""

    async def start(self) -> None:
        """Called when the store is open and requests are taken, before the name servers hear of the broker."""
        ...

    async def stop(self) -> None:
        """Called when no more requests are taken, before the log is closed."""
        ...


@dataclass(frozen=True)
class Replay:
    """Derived state whose table is older than the log: at start it sees the messages behind its table again.

    All replays share one walk over the log, after the tables were read and before the first request is taken.
    """

    since: Callable[[], LogOffset]
    """The log offset the table stands for: the end of the last message it knows."""
    see: Callable[[DispatchEntry], None]
    finish: Callable[[], None] = lambda: None
    """Called once, when all has been seen."""
    wanted: Wanted | None = None
    """Which messages it must see, others may be passed over; None: all."""


@dataclass(frozen=True)
class ConfigChange:
    """Settings that can change while the broker runs: `apply` makes new values hold from now on."""

    keys: tuple[str, ...]
    """RocketMQ's, or ours."""
    apply: Callable[[BrokerConfig, StoreConfig], None]


@dataclass(frozen=True)
class Feature:
    """A value that says what it adds; features never import each other."""

    name: str
    claims: Sequence[str] = ()
    """Names of message properties this feature must see: such messages take the general path."""
    guards: Sequence[Guard] = ()
    send_access: AccessControl | None = None
    """The rules of `guards` in a form that the engine applies to plain sends; without it a guard has all sends take
    the general path."""
    brakes: Sequence[Callable[[SetBrake], None]] = ()
    """Told at the start what puts a brake on all requests, for a while."""
    handlers: Mapping[int, Handler] = field(default_factory=dict)
    resends: Sequence[Examine] = ()
    stored_ids: StoredIds | None = None
    """The ids that `resends` knows, in a form that the engine looks up; without it batches with ids take the general
    path."""
    rewrites: Sequence[Rewrite] = ()
    dispatchers: Sequence[Dispatcher] = ()
    """Derived state that follows messages stored while the broker runs, whichever way they came into the log (see
    `store/dispatch.py`); for those before it there is `Replay`."""
    replays: Sequence[Replay] = ()
    durability: Sequence[Durability] = ()
    services: Sequence[Periodic] = ()
    runners: Sequence[Runner] = ()
    state: Sequence[Table] = ()
    needs: Sequence[Callable[[], LogOffset | None]] = ()
    """The oldest log offset the feature still needs; None when it needs none. The store keeps that file."""
    rolls: Sequence[Roll] = ()
    """Asked before a log file is deleted; what cannot be rolled forward in time keeps its file (see `needs`)."""
    reply_fields: Sequence[ReplyField] = ()
    changes: Sequence[ConfigChange] = ()
    runtime_info: Sequence[Callable[[], Mapping[str, str]]] = ()
    """Figures for whoever asks how the broker is (28), under RocketMQ's names."""
    gauges: Sequence[Callable[[Page], Steps[None]]] = ()
    """Adds series of its own to the metrics; a few milliseconds at most."""
    closers: Sequence[Callable[[], None]] = ()
    """Called at a clean stop, in a thread, when nothing is written any more and the whole log is on disk."""


class GroupRole(Protocol):
    """What a member of a group adds to its broker as leader or as follower, in place of master or slave."""

    @property
    def features(self) -> Sequence[Feature]: ...

    def handlers(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        """The same handlers, but for requests that go through the group's log or that only its leader may serve."""
        ...
