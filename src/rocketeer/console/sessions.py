"""Signed cookies: who is signed in, the token every form carries, and one line to say after an action."""

import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Final

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from rocketeer.console.i18n import TranslatableText

SESSION_COOKIE: Final = "rocketeer_session"
FLASH_COOKIE: Final = "rocketeer_flash"
SESSION_S: Final = 12 * 3600
SESSIONS_MAX: Final = 5_000
"""Beyond it the oldest ends."""
FLASH_CHARS_MAX: Final = 1500
TOKEN_FIELD: Final = "csrf_token"
TOKEN_HEADER: Final = "x-csrf-token"


@dataclass(frozen=True)
class Session:
    """`name` is empty where nobody has to sign in; `id` is what form tokens are made from."""

    name: str
    id: str


class Sessions:
    """The key lives as long as the process: a restart signs everybody out.

    Of those who signed in the ids are kept, so that signing out ends a session whoever has its cookie.
    """

    def __init__(self, *, is_secure: bool) -> None:
        self._key = secrets.token_bytes(32)
        self._cookies = URLSafeTimedSerializer(self._key, salt="session")
        self._flashes = URLSafeTimedSerializer(self._key, salt="flash")
        self._is_secure = is_secure
        # A browser takes a __Host- cookie only from this very host, over TLS: no neighbour can plant one.
        self._cookie = f"__Host-{SESSION_COOKIE}" if is_secure else SESSION_COOKIE
        self._ends_s: dict[str, float] = {}

    def of(self, request: Request) -> Session | None:
        try:
            name, identity = self._cookies.loads(request.cookies.get(self._cookie, ""), max_age=SESSION_S)
        except (BadSignature, ValueError, TypeError):
            return None
        if name and identity not in self._ends_s:
            return None
        return Session(str(name), str(identity))

    def begin(self, response: Response, name: str) -> Session:
        """A new one, with an id nobody has seen: what was in the browser before counts no more."""
        session = Session(name, secrets.token_urlsafe(16))
        if name:
            now_s = time.monotonic()
            self._ends_s = {each: end_s for each, end_s in self._ends_s.items() if end_s > now_s}
            while len(self._ends_s) >= SESSIONS_MAX:
                del self._ends_s[next(iter(self._ends_s))]
            self._ends_s[session.id] = now_s + SESSION_S
        self._set(response, self._cookie, self._cookies.dumps([name, session.id]), SESSION_S)
        return session

    def end(self, session: Session | None, response: Response) -> None:
        if session is not None:
            self._ends_s.pop(session.id, None)
        response.delete_cookie(
            self._cookie, httponly=True, samesite="strict", secure=self._is_secure, path="/"
        )

    def token(self, session: Session) -> str:
        return hmac.new(self._key, session.id.encode(), "sha256").hexdigest()

    def is_token(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())

    # --- one line for the next page ----------------------------------------------------------

    def say(self, response: Response, said: list[object], *, failed: bool) -> None:
        """Sentences: each a Text, to be shown in the reader's language, or somebody's own words."""
        left = FLASH_CHARS_MAX
        parts: list[object] = []
        for each in said:
            if isinstance(each, TranslatableText):
                values = {name: str(value)[:left] for name, value in each.values.items()}
                part: object = [each.template, values]
            else:
                part = str(each)[:left]
            parts.append(part)
            left -= len(json.dumps(part))
            if left <= 0:
                break
        self._set(response, FLASH_COOKIE, self._flashes.dumps([parts, failed]), 60)

    def said(self, request: Request) -> tuple[list[object], bool] | None:
        """The text that `say` left on the page before, and whether it is a failure."""
        try:
            parts, failed = self._flashes.loads(request.cookies.get(FLASH_COOKIE, ""), max_age=60)
        except (BadSignature, ValueError, TypeError):
            return None
        said = [TranslatableText(part[0], part[1]) if isinstance(part, list) else part for part in parts]
        return said, bool(failed)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, httponly=True, samesite="strict", secure=self._is_secure, path="/"
        )
