"""The load generator's inner steps in plain Python; `steps.py` takes the compiled twins where there are any."""

import base64
import hmac
import re
import struct
from array import array
from collections.abc import Callable
from typing import Final

NUMBER_WIDTH: Final = 10
STAMP_WIDTH: Final = 20
_LENGTH: Final = struct.Struct(">i").unpack_from
_OPAQUES: Final = re.compile(rb'"opaque":(\d+)').findall


class Frames:
    """Copies of one frame, each with its own number, place and stamp; all of them have a fixed width."""

    def __init__(
        self,
        frame: bytes,
        numbers_at: list[int],
        topic_at: int,
        queue_at: int,
        stamp_at: int,
        places: list[tuple[bytes, bytes]],
    ) -> None:
        """`stamp_at` is -1 if the body has no stamp; `places` are topics and queue ids, visited in turn."""
        self._signing: tuple[Frames, bytes, int] | None = None
        self._frame = frame
        self._numbers_at = numbers_at
        self._topic_at, self._queue_at, self._stamp_at = topic_at, queue_at, stamp_at
        self._places = places

    def sign(self, content: "Frames", secret: bytes, signature_at: int) -> None:
        """Have every frame carry the signature of its content, which is another template of the same numbers."""
        self._signing = content, secret, signature_at

    def make(self, first: int, due_ns: list[int]) -> bytes:
        """A frame for every due time, numbered from `first`."""
        made = []
        for number, due in enumerate(due_ns, first):
            frame = self._filled(number, due)
            if self._signing is not None:
                content, secret, at = self._signing
                digest = hmac.digest(secret, content._filled(number, due), "sha1")
                signature = base64.b64encode(digest)
                frame[at : at + len(signature)] = signature
            made.append(frame)
        return b"".join(made)

    def _filled(self, number: int, due: int) -> bytearray:
        frame = bytearray(self._frame)
        digits = b"%010d" % number
        for at in self._numbers_at:
            frame[at : at + NUMBER_WIDTH] = digits
        topic, queue = self._places[number % len(self._places)]
        frame[self._topic_at : self._topic_at + len(topic)] = topic
        frame[self._queue_at : self._queue_at + 1] = queue
        if self._stamp_at >= 0:
            frame[self._stamp_at : self._stamp_at + STAMP_WIDTH] = b"%020d" % due
        return frame


class Flight:
    """The requests of a connection that wait for their replies, in a ring by their numbers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = [0] * (1 << max(most - 1, 0).bit_length())
        """When each left; 0 for none."""
        self.under_way = 0
        self.mismatched = 0
        self.refused = 0
        """How many replies of the last `end` say that something is wrong."""

    def begin(self, first: int, due_ns: list[int]) -> bool:
        """Requests from number `first` on leave; False, and none does, if there are too many without a reply."""
        ring, room = self._since, len(self._since)
        if self.under_way + len(due_ns) > self._most:
            return False
        if any(ring[number % room] for number in range(first, first + len(due_ns))):
            return False
        for number, due in enumerate(due_ns, first):
            ring[number % room] = due
        self.under_way += len(due_ns)
        return True

    def end(
        self, data: bytes, now_ns: int, by_us: "array[int]", slow: Callable[[int], None]
    ) -> tuple[int, int, int]:
        """Count the whole replies in `data`; returns how many, where the last one begins, and where it ends."""
        done = begin = 0
        while len(data) - done >= 8:
            size = _LENGTH(data, done)[0]
            stop = done + 4 + size
            if size < 4 or stop > len(data):
                break
            begin, done = done, stop
        opaques = _OPAQUES(data, 0, done)
        self.refused = len(opaques) - data.count(b'"code":0,', 0, done)
        for opaque in opaques:
            place = int(opaque) % len(self._since)
            since, self._since[place] = self._since[place], 0
            if not since:
                self.mismatched += 1
                continue
            self.under_way -= 1
            us = (now_ns - since) // 1000
            if us < len(by_us):
                by_us[us] += 1
            else:
                slow(us)
        return len(opaques), begin, done
