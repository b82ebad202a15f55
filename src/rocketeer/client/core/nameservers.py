"""Which name servers there are, and which to ask first: the one that answered last."""

import re
from collections.abc import Iterable, Sequence

from rocketeer.errors import NoNameServer

_SEPARATORS = re.compile(r"[;,\s]+")


def parse_addresses(text: str | Iterable[str]) -> tuple[str, ...]:
    """The addresses in `a:9876;b:9876` (or a list of such), each once.

    >>> parse_addresses("a:9876; b:9876;a:9876")
    ('a:9876', 'b:9876')
    """
    parts = [text] if isinstance(text, str) else list(text)
    return tuple(dict.fromkeys(address for part in parts for address in _SEPARATORS.split(part) if address))


class NameServers:
    """The addresses to ask in turn. Threads may share it: the list is replaced, never changed."""

    def __init__(self, addresses: Sequence[str], start: int = 0) -> None:
        self._addresses = tuple(addresses)
        self._at = start
        """Where to begin: clients begin at different ones, so that no name server gets them all."""

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    def replace(self, addresses: Sequence[str]) -> bool:
        """Take a new list (from the address server); True when it differs. An empty one is ignored."""
        changed = bool(addresses) and set(addresses) != set(self._addresses)
        if changed:
            self._addresses = tuple(addresses)
        return changed

    def in_turn(self) -> tuple[str, ...]:
        """All of them, the one to ask first in front."""
        addresses = self._addresses
        if not addresses:
            raise NoNameServer(text="no name server address is known: give nameserver= or set NAMESRV_ADDR")
        at = self._at % len(addresses)
        return addresses[at:] + addresses[:at]

    def answered(self, address: str) -> None:
        """Stay with this one: the dead ones before it are not asked again until it fails."""
        addresses = self._addresses
        if address in addresses:
            self._at = addresses.index(address)
