"""Pages from templates, and errors as one sentence: HTML for browsers, JSON under /api."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from rocketeer.console.errors import Refused
from rocketeer.console.i18n import LANGUAGES, Translation, choose_language
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import PageRegistry
from rocketeer.console.sessions import FLASH_COOKIE, Sessions
from rocketeer.console.templates_env import make_templates
from rocketeer.console.users import UserRole
from rocketeer.errors import AccessDenied, RocketeerError

LANGUAGE_COOKIE: Final = "rocketeer_language"


def language_of(request: Request) -> Translation:
    return choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))


def prefix_of(cluster: str) -> str:
    """Where the pages of a cluster are."""
    return f"/c/{quote(cluster, safe='')}" if cluster else ""


def own_url(request: Request) -> str:
    """The path and query as the browser asked for them: a name in it stays quoted."""
    raw = request.scope.get("raw_path")
    path = raw.decode("ascii", "replace") if raw else quote(request.url.path)
    path = path.partition("?")[0]
    return path + (f"?{request.url.query}" if request.url.query else "")


class Responses:
    """Makes the console's responses: pages, errors, the language. `clusters` are the names to choose from."""

    def __init__(
        self, clusters: list[str], registry: PageRegistry, sessions: Sessions, *, signs_in: bool
    ) -> None:
        self._clusters = clusters
        self._registry = registry
        self._sessions = sessions
        self._signs_in = signs_in
        self._templates = make_templates()

    def page(
        self,
        request: Request,
        template: str,
        data: Mapping[str, Any],
        *,
        asked: PageRequest | None = None,
        status: int = 200,
    ) -> Response:
        response = HTMLResponse("", status)
        shown = self._shown(request, response, asked)
        self._render(response, template, {**shown, **data})
        return response

    async def long_page(
        self, request: Request, template: str, data: Mapping[str, Any], *, asked: PageRequest
    ) -> Response:
        """As `page`, made in a thread: there may be thousands of rows on it."""
        response = HTMLResponse("")
        shown = self._shown(request, response, asked)
        await asyncio.to_thread(self._render, response, template, {**shown, **data})
        return response

    def _shown(self, request: Request, response: Response, asked: PageRequest | None) -> dict[str, Any]:
        """The data that every page shows."""
        session = self._sessions.of(request)
        if not self._signs_in and session is None:
            session = self._sessions.begin(response, "")
        language = language_of(request)
        cluster = request.path_params.get("cluster", "")
        if cluster not in self._clusters:
            cluster = ""
        if FLASH_COOKIE in request.cookies and "hx-request" not in request.headers:
            response.delete_cookie(FLASH_COOKIE)
        return {
            "t": language,
            "language": language.code,
            "clusters": self._clusters,
            "cluster": cluster,
            "prefix": prefix_of(cluster),
            "url": own_url(request),
            "user": asked.user if asked is not None else None,
            "signs_in": self._signs_in,
            "token": self._sessions.token(session) if session is not None else "",
            "flash": self._sessions.said(request),
            "registry": self._registry,
            "Role": UserRole,
        }

    def _render(self, response: Response, template: str, shown: Mapping[str, Any]) -> None:
        text = self._templates.get_template(template).render(shown)
        response.body = text.encode(errors="replace")  # half a surrogate in a name is no reason to fail
        response.headers["content-length"] = str(len(response.body))

    async def set_language(self, request: Request) -> Response:
        code = request.path_params["code"]
        back = request.headers.get("referer", "/")
        response = RedirectResponse(back if back.startswith(str(request.base_url)) else "/", 303)
        if code in LANGUAGES:
            response.set_cookie(LANGUAGE_COOKIE, code, max_age=365 * 86400, samesite="lax", httponly=True)
        return response

    # --- errors ------------------------------------------------------------------------------

    def error(self, request: Request, status: int, said: object) -> Response:
        sentence = language_of(request).say(said)
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": sentence}, status)
        if status == 401:
            if "hx-request" in request.headers:  # a part that refreshes itself: the whole page must go
                return Response(status_code=401, headers={"hx-redirect": "/sign-in"})
            return RedirectResponse("/sign-in", 303)
        return self.page(request, "error.html", {"text": sentence}, status=status)

    async def http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self.error(request, error.status_code, error.detail)

    async def failed(self, request: Request, error: Exception) -> Response:
        """The response to a RocketeerError: its text, the broker's own."""
        assert isinstance(error, RocketeerError)
        if isinstance(error, Refused):
            return self.error(request, error.status, error.said)
        return self.error(request, 403 if isinstance(error, AccessDenied) else 502, error)
