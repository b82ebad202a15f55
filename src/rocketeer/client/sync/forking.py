"""Forked children: what the parent's sockets and threads were doing is not theirs, so they start anew.

Objects that hold connections or threads register here; in the child, `after_fork` of each is called before
anything else runs. They must let go without closing: closing politely would end the parent's connections.
"""

import os
from typing import Any, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Runs in the child: forget connections, locks and threads; the next use makes new ones."""


_registered: WeakSet[Any] = WeakSet()
_kept: list[object] = []


def register(owner: Forkable) -> None:
    """Have `owner.after_fork()` called in every child made from now on, as long as the owner lives."""
    _registered.add(owner)


def keep(thing: object) -> None:
    """Keep what was the parent's from being collected, and so closed, in the child."""
    _kept.append(thing)


def _in_child() -> None:
    for owner in list(_registered):
        owner.after_fork()


os.register_at_fork(after_in_child=_in_child)
