"""A signed request is taken once.

Our clients sign the time and a nonce with every request: `<session>.<number>`, where a session is one client and its
numbers only grow. So a server remembers little of each session, as IPsec does: the highest number it has seen, and
which of those just below it. What comes from further below, or a second time, is refused; sessions are forgotten when
whatever they signed is too old to be taken anyway.
"""

from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 300_000
"""How far a client's clock may be from the server's."""
NUMBERS: Final = 4096
"""At most this many requests of one client may overtake another."""
SESSIONS_MAX: Final = 20_000
"""Clients of one account within the window."""
_MASK: Final = (1 << NUMBERS) - 1


@dataclass(slots=True)
class _Session:
    highest: int = -1
    seen: int = 0
    """Bit n: the number `highest - n` has come."""
    last_ms: int = 0

    def take(self, number: int) -> bool:
        """Note a request; False if it came before, or so long ago that nobody can tell."""
        ahead = number - self.highest
        if ahead > 0:
            self.seen = ((self.seen << ahead) | 1) & _MASK if ahead < NUMBERS else 1
            self.highest = number
            return True
        if -ahead >= NUMBERS or self.seen >> -ahead & 1:
            return False
        self.seen |= 1 << -ahead
        return True


class ReplayGuard:
    """The sessions of one account: what one account does costs no other."""

    def __init__(self, *, window_ms: int = WINDOW_MS, sessions_max: int = SESSIONS_MAX) -> None:
        self._window_ms = window_ms
        self._sessions_max = sessions_max
        self._sessions: dict[str, _Session] = {}
        self._swept_ms = 0

    def refusal(self, signed_at: str, nonce: str, now_ms: int) -> str | None:
        """Why the request is not taken; None if it is, and never again."""
        name, dot, digits = nonce.partition(".")
        if not (signed_at.isascii() and signed_at.isdigit() and len(signed_at) <= 15):
            return "SignedAt is no time in ms"
        if not (dot and 0 < len(name) <= 64 and digits.isascii() and digits.isdigit() and len(digits) <= 18):
            return "Nonce is not of the form session.number"
        away_ms = abs(now_ms - int(signed_at))
        if away_ms > self._window_ms:
            return f"it was signed {away_ms // 1000} s away from the server's clock"
        session = self._sessions.get(name)
        if session is None:
            if len(self._sessions) >= self._sessions_max:
                self._sweep(now_ms)
            if len(self._sessions) >= self._sessions_max:
                return f"the account has {self._sessions_max} clients already"
            session = self._sessions[name] = _Session()
        session.last_ms = max(session.last_ms, int(signed_at), now_ms)
        if not session.take(int(digits)):
            return "it came before (a replay)"
        return None

    def _sweep(self, now_ms: int) -> None:
        """Forget what is over, at most once a second: a full table must not make every request expensive."""
        if now_ms - self._swept_ms < 1000:
            return
        self._swept_ms = now_ms
        oldest_ms = now_ms - 2 * self._window_ms
        self._sessions = {
            name: session for name, session in self._sessions.items() if session.last_ms >= oldest_ms
        }
