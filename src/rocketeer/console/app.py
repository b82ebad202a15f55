"""The web application: routes from the registry, signing in, tokens, headers, errors as one sentence."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rocketeer.console.audit_log import AuditLog
from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.config import ConsoleConfig
from rocketeer.console.i18n import LANGUAGES, choose_language
from rocketeer.console.json_form import jsonable
from rocketeer.console.openapi import openapi
from rocketeer.console.pages import all_pages
from rocketeer.console.registry import Action, Outcome, View
from rocketeer.console.sessions import FLASH_COOKIE, TOKEN_FIELD, TOKEN_HEADER, Session, Sessions
from rocketeer.console.templates_env import make_templates
from rocketeer.console.users import NOBODY_ASKED, Role, User, Users
from rocketeer.console.visit import BadField, Visit
from rocketeer.errors import AccessDenied, ClientError, RocketeerError

log = logging.getLogger(__name__)

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
LANGUAGE_COOKIE: Final = "rocketeer_language"
FORM_BYTES_MAX: Final = 8 << 20


def make_app(config: ConsoleConfig) -> Starlette:
    """Raises ConfigError."""
    config.check()
    return Console(config).app


class Console:
    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self._registry = all_pages()
        self._users = Users(config.users) if config.users is not None else None
        self._sessions = Sessions(is_secure=False)
        self._audit = AuditLog(config.audit_log)
        self._clusters: dict[str, ClusterView] = {}
        self._templates = make_templates()
        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=_with_headers)],
            exception_handlers={HTTPException: self._http_error, RocketeerError: self._failed},  # type: ignore[dict-item]
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        for cluster in self._config.clusters:
            self._clusters[cluster.name] = ClusterView(cluster)
        await asyncio.gather(*(view.start() for view in self._clusters.values()))
        try:
            yield
        finally:
            await asyncio.gather(*(view.close() for view in self._clusters.values()))

    def _routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/", self._home),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/language/{code}", self._language),
            Route("/health", lambda request: JSONResponse({"status": "up"})),
            Route("/api/openapi.json", self._openapi),
            Route("/api/token", self._token),
            Mount("/static", StaticFiles(packages=[("rocketeer.console", "static")])),
        ]
        for view in self._registry.views:
            routes.append(Route("/c/{cluster}" + view.path, self._page(view)))
            routes.append(Route("/api/{cluster}" + view.path, self._api_view(view)))
        for action in self._registry.actions:
            routes.append(Route("/c/{cluster}" + action.path, self._form(action), methods=["POST"]))
            routes.append(Route("/api/{cluster}" + action.path, self._api_action(action), methods=["POST"]))
        return routes

    # --- who is it ---------------------------------------------------------------------------

    def _user(self, request: Request, role: Role) -> tuple[User, Session]:
        """Raises HTTPException: 401 sends a browser to the sign-in page, 403 says what is missing."""
        session = self._sessions.of(request)
        if self._users is None:
            return NOBODY_ASKED, session or Session("", "local")
        user = self._users.find(session.name) if session is not None else None
        if user is None or session is None:
            raise HTTPException(401, "sign in first")
        if user.role < role:
            raise HTTPException(
                403, f"this needs the role {role.name.lower()}; {user.name} is {user.role.name.lower()}"
            )
        return user, session

    async def _sign_in(self, request: Request) -> Response:
        failed = False
        if request.method == "POST" and self._users is not None:
            form = await request.form()
            name, password = str(form.get("name", "")), str(form.get("password", ""))
            user = await asyncio.to_thread(self._users.sign_in, name[:200], password[:1000])
            if user is not None:
                response: Response = RedirectResponse("/", 303)
                self._sessions.begin(response, user.name)
                return response
            log.warning(
                "console sign-in failed name=%s from=%s", name[:64], request.client and request.client.host
            )
            failed = True
        return self._render(request, "sign_in.html", {"failed": failed}, status=401 if failed else 200)

    async def _sign_out(self, request: Request) -> Response:
        response = RedirectResponse("/sign-in", 303)
        self._sessions.end(response)
        return response

    async def _language(self, request: Request) -> Response:
        code = request.path_params["code"]
        back = request.headers.get("referer", "/")
        response = RedirectResponse(back if back.startswith(str(request.base_url)) else "/", 303)
        if code in LANGUAGES:
            response.set_cookie(LANGUAGE_COOKIE, code, max_age=365 * 86400, samesite="lax", httponly=True)
        return response

    async def _home(self, request: Request) -> Response:
        return RedirectResponse(f"/c/{quote(self._config.clusters[0].name, safe='')}/", 303)

    # --- views -------------------------------------------------------------------------------

    def _visit(self, request: Request, user: User, fields: Mapping[str, str]) -> Visit:
        cluster = self._clusters.get(request.path_params["cluster"])
        if cluster is None:
            raise HTTPException(404, f"there is no cluster {request.path_params['cluster'][:80]!r} here")
        language = choose_language(
            request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", "")
        )
        return Visit(cluster, request.path_params, fields, user, language)

    def _page(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            user, _ = self._user(request, view.role)
            visit = self._visit(request, user, request.query_params)
            data = await view.load(visit)
            return self._render(request, view.template, {"view": view, "visit": visit, **data}, visit=visit)

        return show

    def _api_view(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            user, _ = self._user(request, view.role)
            return JSONResponse(jsonable(await view.load(self._visit(request, user, request.query_params))))

        return answer

    # --- actions -----------------------------------------------------------------------------

    def _form(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def submit(request: Request) -> Response:
            user, session = self._user(request, action.role)
            form = {name: str(value) for name, value in (await request.form()).items()}
            if not self._sessions.is_token(session, form.pop(TOKEN_FIELD, "")):
                raise HTTPException(403, "the form is too old, or came from elsewhere: load the page again")
            back = form.pop("back", "")
            visit = self._visit(request, user, form)
            try:
                outcome = await self._run(action, visit)
                text, failed = outcome.text, bool(outcome.failures)
                if outcome.failures:
                    text = f"{text}; {'; '.join(outcome.failures)}"
                goto = outcome.goto or back
            except (ClientError, BadField) as error:
                text, failed, goto = str(error), True, back
            prefix = f"/c/{quote(visit.cluster.name, safe='')}"
            response = RedirectResponse(goto if goto.startswith(prefix + "/") else prefix + "/", 303)
            self._sessions.say(response, text, failed=failed)
            return response

        return submit

    def _api_action(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def submit(request: Request) -> Response:
            user, session = self._user(request, action.role)
            if not self._sessions.is_token(session, request.headers.get(TOKEN_HEADER, "")):
                raise HTTPException(403, f"send the token of GET /api/token in the header {TOKEN_HEADER}")
            content = await request.json()
            if not isinstance(content, dict):
                raise HTTPException(400, "the body is no JSON object")
            fields = {
                str(name): value if isinstance(value, str) else str(value) for name, value in content.items()
            }
            outcome = await self._run(action, self._visit(request, user, fields))
            return JSONResponse({"done": outcome.text, "failures": list(outcome.failures)})

        return submit

    async def _run(self, action: Action, visit: Visit) -> Outcome:
        fields = {**visit.path, **visit.fields}
        said = "failed"
        try:
            outcome = await action.run(visit)
            said = outcome.text
            return outcome
        except RocketeerError as error:
            said = f"failed: {error}"
            raise
        finally:
            visit.cluster.changed()
            await asyncio.to_thread(
                self._audit.record,
                user=visit.user.name,
                cluster=visit.cluster.name,
                action=action.name,
                fields=fields,
                outcome=said,
            )

    # --- answers -----------------------------------------------------------------------------

    async def _openapi(self, request: Request) -> Response:
        self._user(request, Role.VIEWER)
        return JSONResponse(openapi(self._registry))

    async def _token(self, request: Request) -> Response:
        """What the header of an action must carry: a page of another site cannot read it."""
        _, session = self._user(request, Role.VIEWER)
        response = JSONResponse({})
        if self._users is None and self._sessions.of(request) is None:
            session = self._sessions.begin(response, "")
        response.body = response.render({"token": self._sessions.token(session)})
        response.headers["content-length"] = str(len(response.body))
        return response

    def _render(
        self,
        request: Request,
        template: str,
        data: Mapping[str, Any],
        *,
        visit: Visit | None = None,
        status: int = 200,
    ) -> Response:
        session = self._sessions.of(request)
        language = choose_language(
            request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", "")
        )
        begins = self._users is None and session is None
        response = HTMLResponse("", status)
        if begins:
            session = self._sessions.begin(response, "")
        cluster = request.path_params.get("cluster", "")
        if cluster not in self._clusters:
            cluster = ""
        prefix = f"/c/{quote(cluster, safe='')}" if cluster else ""
        page = self._templates.get_template(template).render(
            {
                "t": language,
                "language": language.code,
                "clusters": [cluster.name for cluster in self._config.clusters],
                "cluster": cluster,
                "prefix": prefix,
                "path": request.url.path,
                "url": str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
                "user": visit.user if visit is not None else None,
                "signs_in": self._users is not None,
                "token": self._sessions.token(session) if session is not None else "",
                "flash": self._sessions.said(request),
                "registry": self._registry,
                "Role": Role,
                **data,
            }
        )
        response.body = page.encode()
        response.headers["content-length"] = str(len(response.body))
        if FLASH_COOKIE in request.cookies:
            response.delete_cookie(FLASH_COOKIE)
        return response

    async def _http_error(self, request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": error.detail}, error.status_code)
        if error.status_code == 401:
            return RedirectResponse("/sign-in", 303)
        return self._render(request, "error.html", {"text": error.detail}, status=error.status_code)

    async def _failed(self, request: Request, error: RocketeerError) -> Response:
        """The broker's own text, in one sentence."""
        status = 400 if isinstance(error, BadField) else 403 if isinstance(error, AccessDenied) else 502
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": str(error)}, status)
        return self._render(request, "error.html", {"text": str(error)}, status=status)


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    length = request.headers.get("content-length", "0")
    if request.method == "POST" and (not length.isdigit() or int(length) > FORM_BYTES_MAX):
        return JSONResponse({"error": f"a form has at most {FORM_BYTES_MAX} bytes"}, 413)
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.url.path.startswith("/static/"):
        response.headers["cache-control"] = "max-age=3600"
    return response
