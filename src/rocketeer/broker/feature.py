"""What a feature may contribute to the broker; `assemble.py` concatenates the lists in a written order."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketeer.protocol.command import Command
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.remoting.server import Connection, Handler

Guard = Callable[[Command, Connection], None]
"""Admission, before any handler: returns to let pass, raises RequestRefused to refuse."""

Rewrite = Callable[[PendingMessage], None]
"""Changes a message in place before it is appended (a delayed message moves to its level's queue)."""

Dispatcher = Callable[[DispatchEntry], None]
"""Derived state: called for every message stored while the broker runs; for those before it there is `Replay`."""


Durability = Callable[[int, Callable[[int], None]], None]
"""Calls back with a response code once the log below the given offset is safe in this feature's sense."""


class Table(Protocol):
    """State that is persisted as one file under config/ (and can be replicated to a slave)."""

    file_name: str

    def encode(self) -> str: ...

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        """True when something changed since the last call."""
        ...


@dataclass(frozen=True)
class Periodic:
    """A service: `run` is called on the loop every `interval_s`; an exception is logged and does not stop it."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None] | None]


@dataclass(frozen=True)
class Replay:
    """Derived state whose table is older than the log: at start it sees the messages behind its table again.

    All replays share one walk over the log, after the tables were read and before the first request is taken.
    """

    since: Callable[[], int]
    """The log offset the table stands for: the end of the last message it knows."""
    see: Callable[[DispatchEntry], None]
    finish: Callable[[], None] = lambda: None
    """Called once, when all has been seen."""


@dataclass(frozen=True)
class Feature:
    """A value that says what it adds; features never import each other."""

    name: str
    claims: Sequence[str] = ()
    """Names of message properties this feature must see: such messages take the general path."""
    guards: Sequence[Guard] = ()
    handlers: Mapping[int, Handler] = field(default_factory=dict)
    rewrites: Sequence[Rewrite] = ()
    dispatchers: Sequence[Dispatcher] = ()
    replays: Sequence[Replay] = ()
    durability: Sequence[Durability] = ()
    services: Sequence[Periodic] = ()
    state: Sequence[Table] = ()
