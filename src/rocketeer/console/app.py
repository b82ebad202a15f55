"""The web application: routes made from the registry; what it is made of is put together here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rocketeer.console.audit_log import AuditLog
from rocketeer.console.authentication import Authentication
from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.config import ConsoleConfig
from rocketeer.console.guards import Guards
from rocketeer.console.openapi import openapi
from rocketeer.console.pages import all_pages
from rocketeer.console.responses import Responses, prefix_of
from rocketeer.console.serving import Endpoints
from rocketeer.console.sessions import Sessions
from rocketeer.console.users import UserRole, Users
from rocketeer.errors import RocketeerError


def make_app(config: ConsoleConfig) -> Starlette:
    """The console as a web application; raises ConfigError."""
    config.check()
    return Console(config).app


class Console:
    def __init__(self, config: ConsoleConfig) -> None:
        self._registry = all_pages()
        self._clusters = {cluster.name: ClusterView(cluster) for cluster in config.clusters}
        users = Users(config.users) if config.users is not None else None
        self._sessions = Sessions(is_secure=config.is_secure)
        audit = AuditLog(config.audit_log)
        self._responses = Responses(
            list(self._clusters), self._registry, self._sessions, signs_in=users is not None
        )
        self._authentication = Authentication(users, self._sessions, self._responses, audit)
        self._signs_in = users is not None
        self._serving = Endpoints(
            self._clusters, self._authentication, self._responses, self._sessions, audit
        )
        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(Guards, only_local=users is None, is_secure=config.is_secure)],
            exception_handlers={
                HTTPException: self._responses.http_error,
                RocketeerError: self._responses.failed,
            },
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await asyncio.gather(*(view.start() for view in self._clusters.values()))
        try:
            yield
        finally:
            await asyncio.gather(*(view.close() for view in self._clusters.values()))

    def _routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/", self._home),
            Route("/sign-in", self._authentication.sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._authentication.sign_out, methods=["POST"]),
            Route("/language/{code}", self._responses.set_language),
            Route("/health", lambda request: JSONResponse({"status": "up"})),
            Route("/api", self._api_page),
            Route("/api/openapi.json", self._openapi),
            Route("/api/token", self._token),
            Mount("/static", StaticFiles(packages=[("rocketeer.console", "static")])),
        ]
        serving = self._serving
        # Downloads first: a page's path may end with a name that holds anything.
        for download in self._registry.downloads:
            for root in ("/c/{cluster}", "/api/{cluster}"):
                routes.append(Route(root + download.path, serving.download(download)))
        for view in self._registry.views:
            routes.append(Route("/c/{cluster}" + view.path, serving.page(view)))
            routes.append(Route("/api/{cluster}" + view.path, serving.api_view(view)))
        for action in self._registry.actions:
            routes.append(Route("/c/{cluster}" + action.path, serving.form(action), methods=["POST"]))
            routes.append(Route("/api/{cluster}" + action.path, serving.api_action(action), methods=["POST"]))
        return routes

    async def _home(self, request: Request) -> Response:
        return RedirectResponse(f"{prefix_of(next(iter(self._clusters)))}/", 303)

    async def _api_page(self, request: Request) -> Response:
        self._authentication.user(request, UserRole.VIEWER)
        return self._responses.page(request, "api.html", {})

    async def _openapi(self, request: Request) -> Response:
        self._authentication.user(request, UserRole.VIEWER)
        return JSONResponse(openapi(self._registry))

    async def _token(self, request: Request) -> Response:
        """What the header of an action must carry: a page of another site cannot read it."""
        _, session = self._authentication.user(request, UserRole.VIEWER)
        response = Response(media_type="application/json")
        if not self._signs_in and self._sessions.of(request) is None:
            session = self._sessions.begin(response, "")
        response.body = JSONResponse({"token": self._sessions.token(session)}).body
        response.headers["content-length"] = str(len(response.body))
        return response
