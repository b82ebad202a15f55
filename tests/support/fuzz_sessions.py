"""A session of the fuzzer: what one connection sends to one port, in pieces of any size, and how it ends."""

import contextlib
import random
import select
import socket
import struct
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from rocketeer.remoting.address import split_address
from support.mutations import Recorded, mutated, recorded_requests
from support.other_ports import GROUP_ID, http_request, member_frame, slave_report

ANSWER_S = 20.0
HTTP_REQUESTS_MAX = 3
"""On a connection: the server pauses behind each."""

SHARES = {"broker": 66, "namesrv": 22, "ha": 4, "members": 4, "metrics": 2, "console": 2}
"""Of a hundred sessions, where all these ports are there."""


class Session(NamedTuple):
    """What one connection sends, and how it ends."""

    number: int
    to: str
    """One of `SHARES`; "ha" is the port for slaves."""
    data: bytes
    cuts: list[int]
    """Where a piece ends and the next begins."""
    frames: int
    ending: str
    """"ask" for all answers, which say that all was served; "reset" and "leave" without reading."""


class Failure(Exception):
    """A law does not hold."""


def session_of(seed: str, number: int, ports: tuple[str, ...]) -> Session:
    """Follows from its arguments alone."""
    dice = random.Random(f"{seed} {number}")
    to = dice.choices(ports, [SHARES[port] for port in ports])[0]
    count = dice.choice((1, 3, 10, 30, 100))
    if to == "ha":
        frames = [slave_report(dice) for _ in range(count)]
    elif to == "members":
        frames = [member_frame(dice, is_first=not place) for place in range(count)]
    elif to in ("metrics", "console"):
        frames = [http_request(dice) for _ in range(min(count, HTTP_REQUESTS_MAX))]
    else:
        requests, wild = _recorded(to == "namesrv"), dice.random() < 0.25
        frames = [
            mutated(dice.choice(requests), dice.randrange(1 << 30), dice, wild=wild) for _ in range(count)
        ]
    data = b"".join(frames)
    if dice.random() < 0.1 and data:
        data = data[: dice.randrange(len(data))]
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((0, 0, 1, 4, 20))))
    return Session(number, to, data, cuts, len(frames), dice.choice(("ask", "ask", "ask", "reset", "leave")))


@cache
def _recorded(to_namesrv: bool) -> list[Recorded]:
    return [each for each in recorded_requests() if each.to_namesrv is to_namesrv]


def play(session: Session, addresses: Mapping[str, str], group_id: bytes) -> None:
    """Send it; Failure when the server neither answers nor ends the connection."""
    data = session.data.replace(GROUP_ID, group_id)
    with contextlib.closing(socket.create_connection(split_address(addresses[session.to]), ANSWER_S)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start, end in zip([0, *session.cuts], [*session.cuts, len(data)], strict=True):
                peer.sendall(data[start:end])
                if session.ending == "ask":
                    _drop_replies(peer)
            if session.ending == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif session.ending == "ask":
                # What is incomplete stays so; what is whole is served, then it ends.
                peer.shutdown(socket.SHUT_WR)
                _read_to_end(peer, session)
        except TimeoutError:
            raise Failure(f"session {session.number}: the server takes nothing") from None
        except OSError:
            pass  # the server closed it: so be it


def _drop_replies(peer: socket.socket) -> None:
    while select.select([peer], [], [], 0)[0] and peer.recv(1 << 18):
        pass


def _read_to_end(peer: socket.socket, session: Session) -> None:
    try:
        while peer.recv(1 << 18):
            pass
    except TimeoutError:
        raise Failure(f"session {session.number}: neither answered nor ended within {ANSWER_S:g} s") from None
