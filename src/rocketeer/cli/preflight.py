"""Before anything is opened or made: can this process listen and write where it is told to? With enough files?"""

import contextlib
import errno
import os
import resource
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rocketeer.errors import ConfigError


class Port(NamedTuple):
    """A port somebody will listen on; `purpose` tells the reader of an error whose it is."""

    host: str
    number: int
    purpose: str


_WHY = {
    errno.EADDRINUSE: "is already in use; stop the program that uses it or choose another port",
    errno.EACCES: "needs more rights than this user has; choose a port above 1023",
    errno.EADDRNOTAVAIL: "cannot be opened: this machine does not have that address",
}


def check_ports(ports: Iterable[Port]) -> None:
    """Raise ConfigError for the first port that cannot be listened on."""
    with contextlib.ExitStack() as held:  # all at once: two servers of ours may have been given the same port
        for port in ports:
            if not 0 < port.number < 65536:
                raise ConfigError(f"port {port.number} ({port.purpose}) is not between 1 and 65535")
            host = port.host.strip("[]")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            # As the server will do: what a closed connection left behind (TIME_WAIT) is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port.number))
                probe.listen(1)
            except UnicodeError:
                raise ConfigError(
                    f"port {port.number} ({port.purpose}): {port.host!r} is no address"
                ) from None
            except OSError as error:
                why = _WHY.get(error.errno or 0, f"cannot be opened: {error.strerror or error}")
                raise ConfigError(f"port {port.number} on {port.host} ({port.purpose}) {why}") from None


def check_folder(path: Path) -> None:
    """Raise ConfigError unless the folder can be written to, or made."""
    path = path.absolute()
    nearest = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    if not nearest.is_dir():
        raise ConfigError(f"store {path} cannot be used: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"store {path} cannot be used: no permission to write in {nearest}")


def allow_many_files() -> None:
    """Take all the descriptors the system grants, as the JVM does: the usual first limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def numeric_host(host: str) -> str:
    """The address behind a name: message ids carry addresses, not names. IPv4 if it has both: older clients know
    nothing else."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for what cannot be a host's name at all
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"host {host} has no address here: {why}") from None
    return str(min(found, key=lambda entry: entry[0] is not socket.AF_INET)[4][0])
