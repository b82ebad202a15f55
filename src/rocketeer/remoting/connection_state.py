"""The states of an accepted connection, and what leads from one to the next.

| state | requests are | because |
|---|---|---|
| NEW | not there yet | there is no transport |
| OPENING | not served | TLS shakes hands; a plain connection passes through |
| OPENING_OUT_OF_TURN | not read | as OPENING, and others have their turn of the loop first |
| READING | read and served as they come; our own transport may let a read wait for a turn | |
| OUT_OF_TURN | not read; whole ones wait | others have their turn of the loop first |
| UNREAD | not read; whole ones wait | the peer does not read its replies |
| CLOSING | not read nor served | one side has ended it; what was written still leaves |
| TURNED_AWAY | not read nor served | it ended before it was open: the server never heard of it |
| CLOSED | gone | the transport is |

Turns: bytes that asyncio's transports brought wait in OUT_OF_TURN for theirs. Our own transport leaves them in the
kernel, still in READING (`_waits` in `_stream.pyx`); a connection of it is in OUT_OF_TURN only with whole requests
that wait, or bytes to be decrypted.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class ConnectionState(Enum):
    NEW = auto()
    OPENING = auto()
    OPENING_OUT_OF_TURN = auto()
    READING = auto()
    OUT_OF_TURN = auto()
    UNREAD = auto()
    CLOSING = auto()
    TURNED_AWAY = auto()
    CLOSED = auto()


class Event(Enum):
    MADE = auto()
    """A transport is there."""
    OPENED = auto()
    """The peer has a name, and TLS is established if it comes with that."""
    TURN_OVER = auto()
    """The connection has had the loop for long enough."""
    ALL_SERVED = auto()
    """No whole request waits any more."""
    REPLIES_PILE_UP = auto()
    """More than `READ_PAUSE_BYTES` were written and not taken."""
    REPLIES_TAKEN = auto()
    """Most of them have been taken."""
    END = auto()
    """We close it, or the peer has."""
    LOST = auto()
    """The transport is gone."""


_WHILE_IT_LEAVES: Final = (Event.TURN_OVER, Event.REPLIES_PILE_UP, Event.REPLIES_TAKEN, Event.END)
NEXT: Final[Mapping[ConnectionState, Mapping[Event, ConnectionState]]] = {
    ConnectionState.NEW: {Event.MADE: ConnectionState.OPENING},
    ConnectionState.OPENING: {
        Event.OPENED: ConnectionState.READING,
        Event.TURN_OVER: ConnectionState.OPENING_OUT_OF_TURN,
        Event.REPLIES_PILE_UP: ConnectionState.OPENING,
        Event.END: ConnectionState.TURNED_AWAY,
        Event.LOST: ConnectionState.CLOSED,
    },
    ConnectionState.OPENING_OUT_OF_TURN: {
        Event.OPENED: ConnectionState.OUT_OF_TURN,
        Event.TURN_OVER: ConnectionState.OPENING_OUT_OF_TURN,
        Event.ALL_SERVED: ConnectionState.OPENING,
        Event.REPLIES_PILE_UP: ConnectionState.OPENING_OUT_OF_TURN,
        Event.END: ConnectionState.TURNED_AWAY,
        Event.LOST: ConnectionState.CLOSED,
    },
    ConnectionState.READING: {
        Event.TURN_OVER: ConnectionState.OUT_OF_TURN,
        Event.ALL_SERVED: ConnectionState.READING,
        Event.REPLIES_PILE_UP: ConnectionState.UNREAD,
        Event.REPLIES_TAKEN: ConnectionState.READING,
        Event.END: ConnectionState.CLOSING,
        Event.LOST: ConnectionState.CLOSED,
    },
    ConnectionState.OUT_OF_TURN: {
        Event.TURN_OVER: ConnectionState.OUT_OF_TURN,
        Event.ALL_SERVED: ConnectionState.READING,
        Event.REPLIES_PILE_UP: ConnectionState.UNREAD,
        Event.REPLIES_TAKEN: ConnectionState.OUT_OF_TURN,
        Event.END: ConnectionState.CLOSING,
        Event.LOST: ConnectionState.CLOSED,
    },
    ConnectionState.UNREAD: {
        Event.TURN_OVER: ConnectionState.UNREAD,
        Event.REPLIES_PILE_UP: ConnectionState.UNREAD,
        Event.REPLIES_TAKEN: ConnectionState.OUT_OF_TURN,  # what waited is served first, in a turn of its own
        Event.END: ConnectionState.CLOSING,
        Event.LOST: ConnectionState.CLOSED,
    },
    **{
        state: dict.fromkeys(_WHILE_IT_LEAVES, state) | {Event.LOST: ConnectionState.CLOSED}
        for state in (ConnectionState.CLOSING, ConnectionState.TURNED_AWAY)
    },
    ConnectionState.CLOSED: {Event.TURN_OVER: ConnectionState.CLOSED, Event.END: ConnectionState.CLOSED},
}
"""What is not here cannot happen: a KeyError is a bug of ours."""

READ: Final = frozenset({ConnectionState.OPENING, ConnectionState.READING})
"""The transport reads."""
QUEUED: Final = frozenset({ConnectionState.OPENING_OUT_OF_TURN, ConnectionState.OUT_OF_TURN})
"""The connection stands in the queue for turns."""
WAITING: Final = frozenset({*QUEUED, ConnectionState.UNREAD})
"""The transport is told not to read."""
OPENED: Final = frozenset(
    {ConnectionState.READING, ConnectionState.OUT_OF_TURN, ConnectionState.UNREAD, ConnectionState.CLOSING}
)
"""The server knows of the connection."""
