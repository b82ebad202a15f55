"""The states of an accepted connection, and what leads from one to the next.

| state | requests are | because |
|---|---|---|
| NEW | not there yet | there is no transport |
| OPENING | not served | TLS shakes hands; a plain connection passes through |
| OPENING_OUT_OF_TURN | not read | as OPENING, and others have their turn of the loop first |
| READING | read and served as they come | |
| OUT_OF_TURN | not read; whole ones wait | others have their turn of the loop first |
| UNREAD | not read; whole ones wait | the peer does not read its replies |
| CLOSING | not read nor served | one side has ended it; what was written still leaves |
| TURNED_AWAY | not read nor served | it ended before it was open: the server never heard of it |
| CLOSED | gone | the transport is |
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class State(Enum):
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
NEXT: Final[Mapping[State, Mapping[Event, State]]] = {
    State.NEW: {Event.MADE: State.OPENING},
    State.OPENING: {
        Event.OPENED: State.READING,
        Event.TURN_OVER: State.OPENING_OUT_OF_TURN,
        Event.REPLIES_PILE_UP: State.OPENING,
        Event.END: State.TURNED_AWAY,
        Event.LOST: State.CLOSED,
    },
    State.OPENING_OUT_OF_TURN: {
        Event.OPENED: State.OUT_OF_TURN,
        Event.TURN_OVER: State.OPENING_OUT_OF_TURN,
        Event.ALL_SERVED: State.OPENING,
        Event.REPLIES_PILE_UP: State.OPENING_OUT_OF_TURN,
        Event.END: State.TURNED_AWAY,
        Event.LOST: State.CLOSED,
    },
    State.READING: {
        Event.TURN_OVER: State.OUT_OF_TURN,
        Event.ALL_SERVED: State.READING,
        Event.REPLIES_PILE_UP: State.UNREAD,
        Event.REPLIES_TAKEN: State.READING,
        Event.END: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.OUT_OF_TURN: {
        Event.TURN_OVER: State.OUT_OF_TURN,
        Event.ALL_SERVED: State.READING,
        Event.REPLIES_PILE_UP: State.UNREAD,
        Event.REPLIES_TAKEN: State.OUT_OF_TURN,
        Event.END: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.UNREAD: {
        Event.TURN_OVER: State.UNREAD,
        Event.REPLIES_PILE_UP: State.UNREAD,
        Event.REPLIES_TAKEN: State.OUT_OF_TURN,  # what waited is served first, in a turn of its own
        Event.END: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.CLOSING: {**dict.fromkeys(_WHILE_IT_LEAVES, State.CLOSING), Event.LOST: State.CLOSED},
    State.TURNED_AWAY: {**dict.fromkeys(_WHILE_IT_LEAVES, State.TURNED_AWAY), Event.LOST: State.CLOSED},
    State.CLOSED: {Event.TURN_OVER: State.CLOSED, Event.END: State.CLOSED},
}
"""What is not here cannot happen: a KeyError is a bug of ours."""

READ: Final = frozenset({State.OPENING, State.READING})
"""The transport reads."""
QUEUED: Final = frozenset({State.OPENING_OUT_OF_TURN, State.OUT_OF_TURN})
"""The connection stands in the queue for turns."""
WAITING: Final = frozenset({*QUEUED, State.UNREAD})
"""The transport is told not to read."""
OPENED: Final = frozenset({State.READING, State.OUT_OF_TURN, State.UNREAD, State.CLOSING})
"""The server knows of the connection."""
