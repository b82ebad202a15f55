"""Between the sockets and the router: plain sends and pulls in fewer steps, in the order requests came in.

A pull is decoded in one step, header and fields together, and served here when its header is JSON and begins with its
code, and no guard has to see it; what sends do is in `plain_sends.py`. Everything else goes to the router, which
gives the same bytes (tested).
"""

from time import monotonic
from typing import Final

import msgspec

from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.plain_sends import PlainSends
from rocketeer.errors import RequestRefused
from rocketeer.model.java_types import I32
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import FLAG_RESPONSE, Command
from rocketeer.protocol.frame import JSON, Frame
from rocketeer.protocol.headers.pull import PullMessageHeader
from rocketeer.protocol.json_header import NOT_THE_JSON
from rocketeer.remoting.router import Connection, Router, TemporaryGuard

_PULL: Final = int(RequestCode.PULL_MESSAGE)
_PULL_START: Final = b'{"code":%d,' % _PULL


class _PullRequest(msgspec.Struct, gc=False):
    """Header and fields of a pull, decoded together."""

    code: I32
    ext: PullMessageHeader = msgspec.field(name="extFields")
    opaque: I32 = 0
    flag: I32 = 0


class RequestProcessor:
    """Takes what the sockets bring. Without `sends` all sends take the general path."""

    def __init__(
        self, router: Router, sends: PlainSends | None, pulls: PullHandler, *, writable: bool = True
    ) -> None:
        self._router = router
        self._sends = sends
        self._pulls = pulls
        self._guarded = router.guarded
        self._header_bytes_max = router.header_bytes_max
        self._decode_pull = msgspec.json.Decoder(_PullRequest, strict=False).decode
        self._writable = writable
        if sends is not None:
            sends.enable(writable)
        self.serve_front = None if sends is None else sends.serve_front

    def set_temporary_guard(self, guard: TemporaryGuard | None) -> None:
        """Set a guard, or none: while there is one every request takes the general path, where it is seen."""
        self._router.temporary_guard = guard
        self._guarded = guard is not None or self._router.guarded
        if self._sends is not None:
            self._sends.enable(guard is None and self._writable)

    def set_writable(self, writable: bool) -> None:
        """Whether the broker may be written to; what may not be is refused on the general path."""
        self._writable = writable
        self.set_temporary_guard(self._router.temporary_guard)

    def forget_topics(self) -> None:
        """Topics or queues changed: nothing that was found out about them holds any more."""
        if self._sends is not None:
            self._sends.forget_topics()

    def process(self, frames: list[Frame], connection: Connection) -> None:
        """Serve requests that are not at the front of a read, or not plain sends."""
        if self._sends is not None:
            self._sends.flush()
        for done, frame in enumerate(frames, 1):
            kind, header, _ = frame
            is_served = (
                kind == JSON
                and not self._guarded
                and len(header) <= self._header_bytes_max
                and header.startswith(_PULL_START)
                and self._pull(header, connection)
            ) or self._router.serve(frame, connection)
            if not is_served:
                connection.postpone(frames[done - 1 :])
                break
            if monotonic() >= connection.turn_ends_s:
                connection.postpone(frames[done:])
                break

    def _pull(self, header: bytes, connection: Connection) -> bool:
        """Serve one pull; False when it is not for this path or was refused (the general path words that)."""
        try:
            pull = self._decode_pull(header)
            if pull.code != _PULL or pull.flag & FLAG_RESPONSE:
                return False
            self._pulls.serve(pull.ext, Command(code=_PULL, opaque=pull.opaque, flag=pull.flag), connection)
        except (*NOT_THE_JSON, RequestRefused, OSError):
            return False
        return True
