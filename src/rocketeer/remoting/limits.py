"""The refusal of what is beyond a limit, and what a server takes from the network before any handler looks at it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final

from rocketeer.config import ServerLimits
from rocketeer.errors import RequestRefused
from rocketeer.protocol.binary_header import FIXED
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from rocketeer.protocol.frame import JSON

REQUEST_BYTES: Final = 4 << 10
"""Memory of a request that waits, without what it brought: its task, and what it waits for."""
FIELD_BYTES: Final = 128
SMALL_REQUEST_BYTES: Final = 16 << 10
"""One such of a connection that awaits nothing else is always taken."""
CHECKED_AT_ONCE_BYTES: Final = 1 << 20
"""A body of this size is looked through in a millisecond."""
READ_AT_ONCE_BYTES: Final = 8 << 10
"""Largest body of a request that is checked by guards at once; a larger one is checked in steps."""
_SEEN_BYTES: Final = 4096
_OPAQUE: Final = re.compile(rb'"opaque"\s*:\s*(-?[0-9]{1,10})')
_FLAG: Final = re.compile(rb'"flag"\s*:\s*([0-9]{1,10})')


def over_limit(what: str, key: str, limit: int, code: int = ResponseCode.SYSTEM_ERROR) -> RequestRefused:
    """Says what there is too much of, how much is allowed and which setting allows it."""
    return RequestRefused(code, f"{what}: more than the {limit} that {key} allows")


def busy_limit(what: str, key: str, limit: int) -> RequestRefused:
    """As `over_limit`, for what may be asked again a little later."""
    return over_limit(what, key, limit, ResponseCode.SYSTEM_BUSY)


def bytes_taken(command: Command) -> int:
    """What a request takes while its answer is awaited, about: its fields take more than the bytes they came in."""
    fields = sum(map(getsizeof, command.ext.values())) + FIELD_BYTES * len(command.ext)
    texts = getsizeof(command.remark or "") + getsizeof(command.language)
    return REQUEST_BYTES + fields + texts + len(command.body)


@dataclass(frozen=True)
class RequestLimits:
    """What one request may bring."""

    server: ServerLimits = field(default_factory=ServerLimits)
    bulk: Collection[int] = ()
    """Codes whose bodies may fill a frame: messages and registrations have limits of their own."""
    bodies: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Codes whose bodies have another limit: (key, bytes)."""

    def check_body(self, command: Command) -> None:
        """Raise for a body that would take too long to read."""
        size = len(command.body)
        if size > self.server.request_bytes or command.code in self.bodies:
            key, limit = self.bodies.get(command.code, ("limitRequestBytes", self.server.request_bytes))
            if size > limit and command.code not in self.bulk:
                raise over_limit(f"request {command.code} has a body of {size} bytes", key, limit)


def command_of_huge_header(kind: int, header: bytes) -> Command | None:
    """As much of a request as its refusal needs; None if its header does not say enough."""
    if kind != JSON:
        if len(header) < FIXED.size:
            return None
        code, _, _, opaque, flag, _ = FIXED.unpack_from(header)
        return Command(code=code, opaque=opaque, flag=flag, serialize=kind)
    opaque_text = _outside(_OPAQUE, header)
    if opaque_text is None or not -(2**31) <= int(opaque_text) < 2**31:
        return None
    flag = int(_outside(_FLAG, header) or 0) & (FLAG_RESPONSE | FLAG_ONEWAY)
    return Command(code=0, opaque=int(opaque_text), flag=flag)


def _outside(pattern: re.Pattern[bytes], header: bytes) -> bytes | None:
    """Clients write `extFields`, which is what makes a header long, in the middle: look at both ends."""
    found = pattern.search(header, 0, _SEEN_BYTES) or pattern.search(header, len(header) - _SEEN_BYTES)
    return None if found is None else found[1]
