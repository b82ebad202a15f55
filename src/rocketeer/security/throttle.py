"""Slows down a peer that fails to sign in again and again: guessing must not be cheap."""

from collections import OrderedDict
from typing import Final

FREE_FAILURES: Final = 10
"""How many failures in a row cost nothing: somebody typed a wrong key."""
DELAY_MS_MAX: Final = 5_000
PEERS_MAX: Final = 10_000
FORGET_MS: Final = 600_000


class FailureThrottle:
    """Per peer: how many failures in a row, and until when it is refused without a look."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()  # count, refused until

    def __len__(self) -> int:
        return len(self._failures)

    def knows(self, peer: str) -> bool:
        """Whether its last try failed."""
        return peer in self._failures

    def refused_for_ms(self, peer: str, now_ms: int) -> int:
        """How long the peer is still refused; 0 when it may try."""
        entry = self._failures.get(peer)
        return max(entry[1] - now_ms, 0) if entry is not None else 0

    def failed(self, peer: str, now_ms: int) -> int:
        """Count a failure of the peer; returns how many there were in a row."""
        count, until_ms = self._failures.pop(peer, (0, 0))
        if now_ms - until_ms > FORGET_MS:
            count = 0
        count += 1
        over = count - FREE_FAILURES
        delay_ms = min(50 << min(over, 10), DELAY_MS_MAX) if over > 0 else 0
        self._failures[peer] = (count, now_ms + delay_ms)
        if len(self._failures) > PEERS_MAX:
            self._failures.popitem(last=False)
        return count

    def succeeded(self, peer: str) -> None:
        self._failures.pop(peer, None)
