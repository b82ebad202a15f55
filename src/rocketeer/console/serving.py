"""Views, downloads and actions of the registry as HTTP endpoints, for browsers and for programs."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from rocketeer.console.audit_log import AuditLog
from rocketeer.console.authentication import Authentication, address_of
from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.errors import Refused
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.json_form import jsonable
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, ActionResult, Attachment, Download, PageView
from rocketeer.console.responses import Responses, language_of, prefix_of
from rocketeer.console.sessions import TOKEN_FIELD, TOKEN_HEADER, Sessions
from rocketeer.console.users import User, UserRole
from rocketeer.errors import RocketeerError

Endpoint = Callable[[Request], Awaitable[Response]]

BACK: Final = "back"
CONFIRMED: Final = "confirmed"
DRY_RUN: Final = "dry_run"
FILE_CSP: Final = "default-src 'none'; sandbox"


class Endpoints:
    """Makes the responses to pages, actions and files: who may see or do what, then what a page or action says."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterView],
        authentication: Authentication,
        responses: Responses,
        sessions: Sessions,
        audit: AuditLog,
    ) -> None:
        self._clusters = clusters
        self._authentication = authentication
        self._responses = responses
        self._sessions = sessions
        self._audit = audit

    async def _asked(self, request: Request, user: User, fields: Mapping[str, str]) -> PageRequest:
        name = request.path_params["cluster"]
        cluster = self._clusters.get(name)
        if cluster is None:
            raise Refused(404, text("there is no cluster {name} here", name=repr(name[:80])))
        await cluster.ensure_started()
        path = {key: value for key, value in request.path_params.items() if key != "cluster"}
        return PageRequest(cluster, path, fields, user)

    # --- views and files ---------------------------------------------------------------------

    def page(self, view: PageView) -> Endpoint:
        async def show(request: Request) -> Response:
            user, _ = self._authentication.user(request, view.role)
            asked = await self._asked(request, user, request.query_params)
            data = await _load(view, asked)
            return await self._responses.long_page(
                request, view.template, {"view": view, "asked": asked, **data}, asked=asked
            )

        return show

    def api_view(self, view: PageView) -> Endpoint:
        async def answer(request: Request) -> Response:
            user, _ = self._authentication.user(request, view.role)
            data = await _load(view, await self._asked(request, user, request.query_params))
            return await asyncio.to_thread(lambda: JSONResponse(jsonable(data)))

        return answer

    def download(self, download: Download) -> Endpoint:
        async def send(request: Request) -> Response:
            user, _ = self._authentication.user(request, download.role)
            asked = await self._asked(request, user, request.query_params)
            return _file(await download.open(asked))

        return send

    # --- actions -----------------------------------------------------------------------------

    def form(self, action: Action) -> Endpoint:
        async def submit(request: Request) -> Response:
            # Before the form of somebody who may not send it is read.
            async with self._refusals_noted(request, action):
                user, session = self._authentication.user(request, action.role)
            form: dict[str, str] = {}
            for name, value in (await request.form()).multi_items():
                form[name] = f"{form[name]},{value}" if name in form else str(value)
            async with self._refusals_noted(request, action):
                self._authentication.check_token(session, form.pop(TOKEN_FIELD, ""))
            back, confirmed = form.pop(BACK, ""), form.pop(CONFIRMED, "")
            asked = await self._asked(request, user, form)
            root = prefix_of(asked.cluster.name) + "/"
            goto = back if unquote(back).startswith(unquote(root)) and back.startswith("/c/") else root
            said: list[object] = []
            failed = True
            try:
                if action.dangerous and not confirmed:
                    will = await preview(action, asked)
                    data = {"action": action, "will": will, "fields": form, "back": goto}
                    return self._responses.page(request, "confirm.html", data, asked=asked)
                outcome = await self._run(action, asked, request)
                said, failed = [outcome.text, *outcome.failures], bool(outcome.failures)
                if outcome.goto:
                    goto = prefix_of(asked.cluster.name) + outcome.goto
            except Refused as error:
                said = [error.said]
            except RocketeerError as error:
                said = [error]
            response = RedirectResponse(goto, 303)
            self._sessions.say(response, said, failed=failed)
            return response

        return submit

    def api_action(self, action: Action) -> Endpoint:
        async def submit(request: Request) -> Response:
            async with self._refusals_noted(request, action):
                user, session = self._authentication.user(request, action.role)
                self._authentication.check_token(session, request.headers.get(TOKEN_HEADER, ""))
            fields = await _json_fields(request)
            dry_run = fields.pop(DRY_RUN, "").lower() == "true"
            asked = await self._asked(request, user, fields)
            say = language_of(request).say
            if dry_run:
                return JSONResponse({"will": [say(each) for each in await preview(action, asked)]})
            outcome = await self._run(action, asked, request)
            return JSONResponse(
                {"done": say(outcome.text), "failures": [say(each) for each in outcome.failures]}
            )

        return submit

    @contextlib.asynccontextmanager
    async def _refusals_noted(self, request: Request, action: Action) -> AsyncIterator[None]:
        """Note in the audit log who is refused in the block."""
        try:
            yield
        except Refused as error:
            if error.status == 403:
                session = self._sessions.of(request) or self._authentication.user(request, UserRole.VIEWER)[1]
                await asyncio.to_thread(
                    self._audit.record, "refused", user=session.name, address=address_of(request),
                    cluster=request.path_params["cluster"][:200], action=action.name, outcome=str(error),
                )  # fmt: skip
            raise

    async def _run(self, action: Action, asked: PageRequest, request: Request) -> ActionResult:
        """Run an action, noted before and after: what cannot be noted is not done."""

        async def note(event: str, outcome: str = "") -> None:
            await asyncio.to_thread(
                self._audit.record, event, user=asked.user.name, address=address_of(request),
                cluster=asked.cluster.name, action=action.name, fields=_written(action, asked), outcome=outcome,
            )  # fmt: skip

        try:
            await note("asked")
        except OSError as error:
            raise Refused(
                500, text("nothing was done: the audit log cannot be written: {error}", error=error)
            ) from error
        said = "failed"
        try:
            outcome = await action.run(asked)
            said = "; ".join(str(each) for each in (outcome.text, *outcome.failures))
            return outcome
        except RocketeerError as error:
            said = f"failed: {error}"
            raise
        finally:
            asked.cluster.changed()
            await note("done", said)


async def preview(action: Action, asked: PageRequest) -> list[TranslatableText]:
    """What the action will do, before it is done: its warning, and what that means for these fields."""
    will = [TranslatableText(action.warning, dict(asked.path))] if action.warning else []
    if action.preview is not None:
        will += await action.preview(asked)
    return will


async def _load(view: PageView, asked: PageRequest) -> Mapping[str, Any]:
    """Load a page's data, once for all browsers that ask for it at a time."""
    key = (view.name, *sorted(asked.path.items()), *sorted(asked.fields.items()))
    return await asked.cluster.looks.get(key, lambda: view.load(asked))


async def _json_fields(request: Request) -> dict[str, str]:
    try:
        content = await request.json()
    except (ValueError, RecursionError):
        raise Refused(400, text("the body is no JSON")) from None
    if not isinstance(content, dict):
        raise Refused(400, text("the body is no JSON object"))
    return {str(name): _field(value) for name, value in content.items()}


def _field(value: object) -> str:
    if isinstance(value, list):
        return ",".join(_field(each) for each in value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value) if value is not None else ""
    return str(value)


def _written(action: Action, asked: PageRequest) -> dict[str, str]:
    """The fields as they may be written down."""
    hidden = "secret" in asked.text("key").lower() or "password" in asked.text("key").lower()
    shown: dict[str, str] = dict(asked.path)
    for name, value in asked.fields.items():
        if action.hides(name) or (hidden and name == "value"):
            value = f"({len(value.encode(errors='replace'))} bytes)" if "secret" not in name else "***"
        shown[name] = value
    return shown


def _file(attachment: Attachment) -> Response:
    """The response for a file, which browsers save and never show; nothing in its name can end the header."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "_" for c in attachment.filename)
    named = quote(attachment.filename, safe="")
    way = "inline" if attachment.shown_under else "attachment"
    return StreamingResponse(
        attachment.pieces,
        media_type=attachment.media_type,
        headers={
            "content-disposition": f"{way}; filename=\"{plain[:150]}\"; filename*=UTF-8''{named}",
            "content-security-policy": attachment.shown_under or FILE_CSP,
        },
    )
