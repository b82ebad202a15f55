"""Ports for servers that only this machine talks to: benchmarks, clusters of tests."""

import contextlib
import os
import random
import socket
from collections import deque

from rocketeer.errors import ConfigError

HOST = "127.0.0.1"
# Below the range the kernel hands out by itself: there a client that calls a stopped server may be given the
# server's own port to call from, and then talks to itself, or keeps the server from starting again.
LOWEST, HIGHEST = 12_000, 30_000
_dice = random.SystemRandom()  # whoever seeds `random` must not have all processes try the same ports
_RESERVED_MAX = 64
_reserved: deque[int] = deque()
"""Sockets whose names no other process can have, for the ports given last: servers take a moment to open theirs."""


def free_ports() -> tuple[int, int]:
    """A port for a name server and one for a broker whose neighbours (VIP = -2, HA = +1) are free too.

    They are given to nobody else for a while, but not kept open: whoever opens them must be ready for PortInUse.
    """
    for _ in range(100):
        base = _dice.randrange(LOWEST, HIGHEST, 8)
        with contextlib.ExitStack() as held:
            try:
                for port in (base, base + 2, base + 4, base + 5):
                    probe = held.enter_context(socket.socket())
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((HOST, port))
            except OSError:
                continue
        if _reserve(base):
            return base, base + 4
    raise ConfigError(f"no free ports between {LOWEST} and {HIGHEST}")


def _reserve(base: int) -> bool:
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0rocketeer-ports-{base}")
    except OSError:
        name.close()
        return False
    _reserved.append(name.detach())  # until this process ends
    if len(_reserved) > _RESERVED_MAX:
        os.close(_reserved.popleft())
    return True
