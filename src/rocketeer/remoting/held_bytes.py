"""What all peers of a server together make it hold: frames that do not end, and replies that nobody reads.

Each connection has bounds of its own (`connection.py`); a thousand connections just below them would still be too
much. Beyond a limit of the whole server connections are closed, those first that an honest peer resembles least.
"""

import time
from collections.abc import Callable
from typing import Protocol

NOTED_BYTES = 2 << 10
"""Less of an unfinished frame than this is not counted."""

UNREAD_NOTED_BYTES = 16 << 10
"""Fewer unread bytes than this are not counted: the sockets of honest peers are full for moments, too."""


class FrameSource(Protocol):
    """A peer whose frames come in parts."""

    def close(self, reason: str, *, abort: bool = False) -> None: ...
    def drop_unfinished(self) -> None: ...


class ReplyReader(Protocol):
    """A peer that replies are written to."""

    @property
    def unread_bytes(self) -> int: ...
    @property
    def taken_bytes(self) -> int:
        """How much of what was written the peer's side has taken, since the connection began."""
        ...

    def close(self, reason: str, *, abort: bool = False) -> None: ...


class UnfinishedFrames:
    """What all connections of a server hold of frames that have begun and not ended.

    Beyond the limit the one whose frame began first is closed: whoever sends a whole frame without a pause is the
    last to be hit.
    """

    def __init__(self, bytes_max: int, key: str) -> None:
        self._bytes_max = bytes_max
        self._key = key
        self._bytes = 0
        self.bytes_of: dict[FrameSource, int] = {}
        """In the order in which their frames began."""

    def note(self, peer: FrameSource, unfinished_bytes: int) -> None:
        """Note how much of an unfinished frame the connection holds now."""
        before = self.bytes_of.get(peer, 0)
        self._bytes += unfinished_bytes - before
        if unfinished_bytes < before or not unfinished_bytes:
            self.bytes_of.pop(peer, None)  # another frame than before
        if unfinished_bytes:
            self.bytes_of[peer] = unfinished_bytes
        while self._bytes > self._bytes_max:
            oldest = next(iter(self.bytes_of))
            self._bytes -= self.bytes_of.pop(oldest)
            reason = (
                f"unfinished frames of all connections take more than {self._key}={self._bytes_max} bytes"
            )
            oldest.close(reason, abort=True)
            oldest.drop_unfinished()


class _Backlog:
    """What one peer has not read: `since_s` is when the bytes up to `until` began to wait for it."""

    __slots__ = ("bytes", "since_s", "until")

    def __init__(self) -> None:
        self.bytes = self.until = 0
        self.since_s = 0.0


class UnreadReplies:
    """What all connections of a server hold of replies that their peers have not read.

    Beyond the limit those are closed whose replies have waited longest: whoever reads, however much it asks for, has
    taken in a moment what was there a moment ago; whoever reads a byte now and then has not. Sizes are noted when
    they grow and looked up again when the limit seems reached, so that a reader who keeps up costs nothing.
    """

    def __init__(self, bytes_max: int, key: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._bytes_max = bytes_max
        self._key = key
        self._now_s = now_s
        self._bytes = 0
        self._backlogs: dict[ReplyReader, _Backlog] = {}

    def note(self, peer: ReplyReader) -> None:
        """Note that more was written to it and not taken."""
        backlog = self._backlogs.get(peer)
        if backlog is None:
            backlog = self._backlogs[peer] = _Backlog()
        self._look_at(peer, backlog, self._now_s())
        if self._bytes > self._bytes_max:
            self._close_slowest()

    def forget(self, peer: ReplyReader) -> None:
        """Forget a peer whose connection is gone."""
        backlog = self._backlogs.pop(peer, None)
        if backlog is not None:
            self._bytes -= backlog.bytes

    def _look_at(self, peer: ReplyReader, backlog: _Backlog, now_s: float) -> None:
        unread, taken = peer.unread_bytes, peer.taken_bytes
        self._bytes += unread - backlog.bytes
        backlog.bytes = unread
        if taken >= backlog.until:
            backlog.since_s, backlog.until = now_s, taken + unread

    def _close_slowest(self) -> None:
        """Count anew; if it is still too much, close the slowest peers, and some more, so that the next count is not
        due at once."""
        now_s = self._now_s()
        for peer, backlog in list(self._backlogs.items()):
            self._look_at(peer, backlog, now_s)
            if backlog.bytes < UNREAD_NOTED_BYTES:
                self.forget(peer)
        if self._bytes <= self._bytes_max // 16 * 15:
            return
        reason = f"replies that nobody reads take more than {self._key}={self._bytes_max} bytes"
        slowest = sorted(self._backlogs.items(), key=lambda item: item[1].since_s)
        for peer, backlog in slowest:
            if self._bytes <= self._bytes_max // 8 * 7:
                return
            self.forget(peer)
            peer.close(f"{reason}, and these have waited {now_s - backlog.since_s:.1f} s", abort=True)
