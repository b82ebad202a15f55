"""What a feature may contribute to the broker; `assemble.py` concatenates the lists in a written order."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketeer.broker.offsets import WentBack
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.engine.sends import StoredIds
from rocketeer.model.offsets import LogOffset
from rocketeer.observe.exposition import MetricsPage
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.record.skip import SkipFilter
from rocketeer.remoting.router import Connection, Guard, Handler, TemporaryGuard
from rocketeer.security.access import AccessControl
from rocketeer.steps import Steps
from rocketeer.store.dispatch import Dispatcher as Dispatcher
from rocketeer.store.retention_guard import Roll

Rewrite = Callable[[PendingMessage], None]
"""Changes a message in place before it is appended (a delayed message moves to its level's queue)."""

Redirect = Callable[[PendingMessage, dict[str, str], int | None], None]
"""Sees what a client sends to a retry topic: message, properties, and how many tries its sender allows (None: as its
group does). May give the message another topic, or raise RequestRefused."""


ReplyField = Callable[[str, DispatchEntry], Mapping[str, str]]
"""Adds fields to the reply of a send that took the general path: (the topic asked for, what was stored)."""


class ResendCheck(Protocol):
    """What a feature found out about the messages of one send: which of them are stored already."""

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


Examine = Callable[[str, int, Sequence[tuple[bytes, bytes]]], Steps[ResendCheck | None]]
"""Finds what was stored already: (topic, queue id, properties and body of each message) as their producer sent them,
before any rewrite. None when no message concerns the feature; RequestRefused for what must not be stored."""

Durability = Callable[[LogOffset, Callable[[int], None]], None]
"""Calls back with a response code once the log below the given offset is safe in this feature's sense."""


SetTemporaryGuard = Callable[[TemporaryGuard | None], None]
"""Has every request seen by the guard from now on, on the general path; None: by nobody, plain sends and pulls are
served in fewer steps again."""


Override = Callable[[Mapping[int, Handler]], Mapping[int, Handler]]
"""Gets all handlers that there are; returns those that answer instead, by request code."""


class PersistedTable(Protocol):
    """State that is persisted as one file under config/ (and can be replicated to a slave)."""

    file_name: str

    def encode(self) -> str: ...

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        """True when something changed since the last call."""
        ...


class IdlePause:
    """The longer pause of a service that has nothing to do, so that an idle broker costs next to nothing."""

    def __init__(self, is_idle: Callable[[], bool], interval_s: float) -> None:
        self.is_idle = is_idle
        self.interval_s = interval_s
        self.on_wake: list[Callable[[], None]] = []

    def wake(self) -> None:
        """End the pause immediately: there is work for the service."""
        for woken in self.on_wake:
            woken()


@dataclass(frozen=True)
class Periodic:
    """A service: `run` is called on the loop every `interval_s`; an exception is logged and does not stop it."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None] | None]
    idle_pause: IdlePause | None = None


class BackgroundPart(Protocol):
    """A background part of a feature with its own start and stop, such as a listening port or a kept-up
    connection."""

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
    on_message: Callable[[DispatchEntry], None]
    finish: Callable[[], None] = lambda: None
    """Called once, when all has been seen."""
    wanted: SkipFilter | None = None
    """Which messages it must see, others may be passed over; None: all."""


@dataclass(frozen=True)
class ConfigChange:
    """Settings that can change while the broker runs: `apply` makes new values hold from now on."""

    keys: tuple[str, ...]
    """Keys of the settings: RocketMQ's, or ours."""
    apply: Callable[[BrokerConfig, StoreConfig], None]


@dataclass(frozen=True)
class Feature:
    """A value that says what it adds; features never import each other.

    The writer is made from what features do with messages on their way into the log: `resends`, `rewrites` and
    `durability`. A feature that also stores messages is therefore two values: one with these, made before the writer,
    and one with the rest, made with it.
    """

    name: str
    claims: Sequence[str] = ()
    """Names of message properties this feature must see: such messages take the general path."""
    guards: Sequence[Guard] = ()
    send_access: AccessControl | None = None
    """The rules of `guards` in a form that the engine applies to plain sends; without it a guard has all sends take
    the general path."""
    temporary_guards: Sequence[Callable[[SetTemporaryGuard], None]] = ()
    """Told at the start how to set a guard before all requests, for a while."""
    handlers: Mapping[int, Handler] = field(default_factory=dict)
    overrides: Sequence[Override] = ()
    """What answers instead of other features' handlers, or around them: what a role refuses, for example."""
    resends: Sequence[Examine] = ()
    stored_ids: StoredIds | None = None
    """The ids that `resends` knows, in a form that the engine looks up; without it batches with ids take the general
    path."""
    redirects: Sequence[Redirect] = ()
    rewrites: Sequence[Rewrite] = ()
    on_close: Sequence[Callable[[Connection], None]] = ()
    """Called for every client connection that closes, for whatever reason."""
    on_group_gone: Sequence[Callable[[str], None]] = ()
    """Called with the name of each consumer group whose last member left."""
    on_offset_back: Sequence[WentBack] = ()
    """Called whenever the offset of a consumer group is set back."""
    on_recovered: Sequence[Callable[[], None]] = ()
    """Called once: the store has recovered and the tables are read, but nothing is replayed yet."""
    internal_topics: Sequence[str] = ()
    """What the feature lives by: no topics of users, whose queues go when nobody has them any more."""
    dispatchers: Sequence[Dispatcher] = ()
    """Derived state that follows messages stored while the broker runs, whichever way they came into the log (see
    `store/dispatch.py`); for those before it there is `Replay`."""
    replays: Sequence[Replay] = ()
    durability: Sequence[Durability] = ()
    services: Sequence[Periodic] = ()
    runners: Sequence[BackgroundPart] = ()
    state: Sequence[PersistedTable] = ()
    needs: Sequence[Callable[[], LogOffset | None]] = ()
    """The oldest log offset the feature still needs; None when it needs none. The store keeps that file."""
    rolls: Sequence[Roll] = ()
    """Asked before a log file is deleted; what cannot be rolled forward in time keeps its file (see `needs`)."""
    reply_fields: Sequence[ReplyField] = ()
    changes: Sequence[ConfigChange] = ()
    runtime_info: Sequence[Callable[[], Mapping[str, str]]] = ()
    """Figures for whoever asks how the broker is (28), under RocketMQ's names."""
    gauges: Sequence[Callable[[MetricsPage], Steps[None]]] = ()
    """Adds series of its own to the metrics; a few milliseconds at most."""
    closers: Sequence[Callable[[], None]] = ()
    """Called at a clean stop, in a thread, when nothing is written any more and the whole log is on disk."""


@dataclass(frozen=True)
class LeaderRegistration:
    """How a broker registers that leads a group."""

    epoch: int
    is_current: Callable[[], bool]
    """While it is False the broker does not register: a leader whose lease is over may have a successor."""


class GroupRole(Protocol):
    """What a member of a group adds to its broker as leader or as follower, in place of master or slave."""

    @property
    def leading(self) -> LeaderRegistration | None:
        """How it registers as the leader; None for a follower."""
        ...

    @property
    def features(self) -> Sequence[Feature]: ...
