"""Slows down whoever guesses passwords: each failure doubles the wait, by address and by name."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

FREE_TRIES: Final = 5
ADDRESS_WAIT_S_MAX: Final = 900.0
NAME_WAIT_S_MAX: Final = 30.0
"""Less than an address's: nobody can lock somebody else out for long."""
FORGET_S: Final = 3600.0
KEPT: Final = 10_000


@dataclass
class _Failures:
    count: int
    last_s: float


class SignInLimit:
    """Time is an argument: seconds of any clock that does not run backwards."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def wait_s(self, address: str, name: str, now_s: float) -> float:
        """How long this one has to wait before the next try; 0: it may try now."""
        return max(
            self._wait_s(("address", address), ADDRESS_WAIT_S_MAX, now_s),
            self._wait_s(("name", name), NAME_WAIT_S_MAX, now_s),
        )

    def failed(self, address: str, name: str, now_s: float) -> None:
        for key in (("address", address), ("name", name)):
            known = self._failures.pop(key, None)
            if known is None or now_s - known.last_s > FORGET_S:
                known = _Failures(0, now_s)
            known.count += 1
            known.last_s = now_s
            self._failures[key] = known
        while len(self._failures) > KEPT:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """The name is known to be its owner's; the address may still be guessing others."""
        self._failures.pop(("name", name), None)

    def _wait_s(self, key: tuple[str, str], most_s: float, now_s: float) -> float:
        known = self._failures.get(key)
        if known is None or known.count < FREE_TRIES:
            return 0.0
        pause_s = min(2.0 ** min(known.count - FREE_TRIES, 30), most_s)
        return max(0.0, known.last_s + pause_s - now_s)
