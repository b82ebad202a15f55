"""Signed cookies: who is signed in, the token every form carries, and one line to say after an action."""

import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

SESSION_COOKIE: Final = "rocketeer_session"
FLASH_COOKIE: Final = "rocketeer_flash"
SESSION_S: Final = 12 * 3600
TOKEN_FIELD: Final = "csrf_token"
TOKEN_HEADER: Final = "x-csrf-token"


@dataclass(frozen=True)
class Session:
    """`name` is empty where nobody has to sign in; `id` is what form tokens are made from."""

    name: str
    id: str


class Sessions:
    """The key lives as long as the process: a restart signs everybody out."""

    def __init__(self, *, is_secure: bool) -> None:
        self._key = secrets.token_bytes(32)
        self._cookies = URLSafeTimedSerializer(self._key, salt="cookie")
        self._is_secure = is_secure

    def of(self, request: Request) -> Session | None:
        try:
            name, identity = self._cookies.loads(request.cookies.get(SESSION_COOKIE, ""), max_age=SESSION_S)
        except (BadSignature, ValueError, TypeError):
            return None
        return Session(str(name), str(identity))

    def begin(self, response: Response, name: str) -> Session:
        session = Session(name, secrets.token_urlsafe(16))
        self._set(response, SESSION_COOKIE, self._cookies.dumps([name, session.id]), SESSION_S)
        return session

    def end(self, response: Response) -> None:
        response.delete_cookie(SESSION_COOKIE)

    def token(self, session: Session) -> str:
        return hmac.new(self._key, session.id.encode(), "sha256").hexdigest()

    def is_token(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())

    # --- one line for the next page ----------------------------------------------------------

    def say(self, response: Response, text: str, *, failed: bool) -> None:
        self._set(response, FLASH_COOKIE, self._cookies.dumps([text[:1500], failed]), 60)

    def said(self, request: Request) -> tuple[str, bool] | None:
        try:
            text, failed = self._cookies.loads(request.cookies.get(FLASH_COOKIE, ""), max_age=60)
        except (BadSignature, ValueError, TypeError):
            return None
        return str(text), bool(failed)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, httponly=True, samesite="strict", secure=self._is_secure
        )
