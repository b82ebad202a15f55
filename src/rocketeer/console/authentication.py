"""Who is it, and may they: signing in and out, roles, the token of forms."""

import asyncio
import logging
import math
import time
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rocketeer.console.audit_log import AuditLog
from rocketeer.console.errors import Refused
from rocketeer.console.http_peers import note_peer
from rocketeer.console.i18n import text
from rocketeer.console.responses import Responses
from rocketeer.console.sessions import TOKEN_FIELD, Session, Sessions
from rocketeer.console.sign_in_limit import SignInLimit
from rocketeer.console.users import NOBODY_ASKED, User, UserRole, Users

log = logging.getLogger(__name__)

FIELDS_MAX: Final = 16
HASHES_AT_ONCE: Final = 2
"""Each takes 64 MB and 50 ms: strangers must not have more of them done than this."""


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _small_form(request: Request) -> dict[str, str]:
    """The fields of a form that strangers may send: few, and read at once."""
    try:
        pairs = parse_qsl(
            (await request.body()).decode(errors="replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise Refused(400, text("the form has too many fields")) from None
    return dict(pairs)


class Authentication:
    """Signs users in and checks their roles.

    Without `users` whoever comes is an admin: the console then listens on this machine only.
    """

    def __init__(
        self, users: Users | None, sessions: Sessions, responses: Responses, audit: AuditLog
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._responses = responses
        self._audit = audit
        self._limit = SignInLimit()
        self._hashing = asyncio.Semaphore(HASHES_AT_ONCE)

    def user(self, request: Request, role: UserRole) -> tuple[User, Session]:
        """Raises Refused: 401 sends a browser to the sign-in page, 403 says what is missing."""
        session = self._sessions.of(request)
        if self._users is None:
            return NOBODY_ASKED, session or Session("", "local")
        user = self._users.find(session.name) if session is not None else None
        note_peer(request, is_user=user is not None)
        if user is None or session is None:
            raise Refused(401, text("sign in first"))
        if user.role < role:
            raise Refused(
                403,
                text(
                    "this needs the role {role}; {name} is {own}",
                    role=role.name.lower(), name=user.name, own=user.role.name.lower(),
                ),
            )  # fmt: skip
        return user, session

    def check_token(self, session: Session, token: str) -> None:
        """Raise Refused unless the token is the session's."""
        if not self._sessions.is_token(session, token):
            raise Refused(403, text("the form is too old, or came from elsewhere: load the page again"))

    # --- the pages ---------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        problem = None
        status = 200
        if request.method == "POST" and self._users is not None:
            form = await _small_form(request)
            name, password = form.get("name", "")[:200], form.get("password", "")[:1000]
            wait_s = self._limit.wait_s(address_of(request), name, time.monotonic())
            if wait_s > 0:
                await self._note("sign-in refused", name, request)
                problem, status = text("Too many tries: wait {seconds} s.", seconds=math.ceil(wait_s)), 429
            else:
                # Counted before it is known to be wrong: a hundred tries at the same time are a hundred.
                self._limit.failed(address_of(request), name, time.monotonic())
                user = await self._check(self._users, name, password)
                if user is not None:
                    self._limit.succeeded(address_of(request), name)
                    await self._note("signed in", name, request)
                    response: Response = RedirectResponse("/", 303)
                    self._sessions.begin(response, user.name)
                    return response
                await self._note("sign-in failed", name, request)
                problem, status = text("Name or password is wrong."), 401
        answer = self._responses.page(request, "sign_in.html", {"problem": problem}, status=status)
        if status == 429:
            answer.headers["retry-after"] = str(math.ceil(wait_s))
        return answer

    async def _check(self, users: Users, name: str, password: str) -> User | None:
        async with self._hashing:
            return await asyncio.to_thread(users.sign_in, name, password)

    async def sign_out(self, request: Request) -> Response:
        user, session = self.user(request, UserRole.VIEWER)
        self.check_token(session, (await _small_form(request)).get(TOKEN_FIELD, ""))
        response = RedirectResponse("/sign-in", 303)
        self._sessions.end(session, response)
        await self._note("signed out", user.name, request)
        return response

    async def _note(self, event: str, name: str, request: Request) -> None:
        await asyncio.to_thread(self._audit.record, event, user=name, address=address_of(request))
