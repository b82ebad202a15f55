"""TLS of an accepted connection, between its transport and its frames; nothing here waits.

The transport carries what is encrypted. So what a peer has sent is decrypted in the turn in which it is read, and
large replies are encrypted in slices of the loop: a crowd with TLS keeps others waiting no longer than one without.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps

RECORD_BYTES: Final = 16 << 10
"""Largest record that is encrypted as one."""
RECORDS_MAX: Final = 256
"""Most records that are decrypted at a time: each takes some microseconds, and may have one byte."""
PIECE_BYTES: Final = 4 * RECORD_BYTES
"""How many bytes are encrypted at a time."""


class TlsSession:
    """The server's side: bytes of the transport in and out. SSLError: what came is no TLS, or not for us."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.is_established = False
        self.has_ended = False
        """The peer has said that nothing more comes."""
        self.shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done with the handshake; with an error if that failed."""

    def decrypt(self, data: bytes) -> bytes:
        """What the peer says, as far as it has come, or the first RECORDS_MAX; nothing during the handshake."""
        self._in.write(data)
        if not self.is_established and not self._shake_hands():
            return b""
        pieces: list[bytes] = []
        while self.has_more and len(pieces) < RECORDS_MAX:
            try:
                piece = self._tls.read(RECORD_BYTES)
            except ssl.SSLWantReadError:  # of the next record there is a part
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.has_ended = True
                break
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def has_more(self) -> bool:
        """Whether something that has come is to be decrypted."""
        return not self.has_ended and bool(self._in.pending or self._tls.pending())

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        if not self.shaken.done():
            self.shaken.set_result(None)
        return True

    def fail(self, error: Exception) -> None:
        """Tell whoever waits for the handshake that it failed."""
        if not self.shaken.done():
            self.shaken.set_exception(error)

    def encrypt(self, data: bytes | memoryview) -> bytes:
        if data:
            self._tls.write(data)
        return self._out.read()

    def pending_output(self) -> bytes:
        """What TLS itself has to send: parts of the handshake, new keys, alerts."""
        return self._out.read() if self._out.pending else b""

    def end(self) -> None:
        """Have TLS say that nothing more comes (close_notify)."""
        with contextlib.suppress(
            ssl.SSLError
        ):  # the peer's goodbye is not there yet, or the handshake is not done
            self._tls.unwrap()


class LowerTransport(Protocol):
    """The transport that carries the encrypted bytes."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def get_extra_info(self, name: str, default: object = None) -> Any: ...


class EncryptedTransport:
    """A transport in the sense of asyncio: what is written to it leaves through the one below, encrypted."""

    def __init__(
        self,
        lower: LowerTransport,
        session: TlsSession,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        """`pause` and `resume`: too much waits to be encrypted, nothing does any more; the one below has such calls,
        too."""
        self._lower = lower
        self._session = session
        self._pause, self._resume = pause, resume
        self._high = 0
        self._told_to_pause = False
        self._plain: deque[bytes | memoryview] = deque()
        self._plain_bytes = 0
        """Bytes that wait to be encrypted."""
        self._closing = False
        self.pause_reading = lower.pause_reading
        self.resume_reading = lower.resume_reading
        self.get_extra_info = lower.get_extra_info

    def write(self, data: bytes | memoryview) -> None:
        if self._plain or len(data) > PIECE_BYTES:
            self._write_later([data])
        elif not self._closing:
            self._lower.write(self._session.encrypt(data))

    def writelines(self, parts: list[bytes | memoryview]) -> None:
        if self._plain or sum([len(part) for part in parts]) > PIECE_BYTES:
            self._write_later(parts)
        else:
            self.write(b"".join(parts))

    def _write_later(self, parts: list[bytes | memoryview]) -> None:
        if self._closing:
            return
        is_under_way = bool(self._plain)
        self._plain.extend(parts)
        self._plain_bytes += sum([len(part) for part in parts])
        if not is_under_way:
            run_sliced(self._encrypt_all())
        if self._plain_bytes > self._high and not self._told_to_pause:
            self._told_to_pause = True
            self._pause()

    def _encrypt_all(self) -> Steps[None]:
        while self._plain and not self._lower.is_closing():
            piece = self._next_piece()
            self._lower.write(self._session.encrypt(piece))
            if not self._plain:  # not behind the yield: the next write may come before
                break
            yield
        self._plain.clear()
        self._plain_bytes = 0
        if self._closing:
            self._end_session()
        else:
            self._told_to_pause = False
            self._resume()  # always: while much waited here, nobody may have listened to the one below

    def _next_piece(self) -> bytes | memoryview:
        pieces: list[bytes | memoryview] = []
        room = PIECE_BYTES
        while room and self._plain:
            part = self._plain.popleft()
            if len(part) > room:
                view = memoryview(part)
                self._plain.appendleft(view[room:])
                part = view[:room]
            pieces.append(part)
            room -= len(part)
        self._plain_bytes -= PIECE_BYTES - room
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send_session_output(self) -> None:
        """Send what the TLS session itself has to send after what came."""
        words = self._session.pending_output()
        if words:
            self._lower.write(words)

    def get_write_buffer_size(self) -> int:
        return self._plain_bytes + self._lower.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high
        self._lower.set_write_buffer_limits(high=high)

    def is_closing(self) -> bool:
        return self._closing or self._lower.is_closing()

    def close(self) -> None:
        """Close once what was written has left."""
        if not self._closing:
            self._closing = True
            if not self._plain:
                self._end_session()

    def _end_session(self) -> None:
        self._session.end()
        self.send_session_output()
        self._lower.close()

    def abort(self) -> None:
        """Close immediately; what was not sent is dropped."""
        self._closing = True
        self._plain.clear()
        self._plain_bytes = 0
        self._lower.abort()
