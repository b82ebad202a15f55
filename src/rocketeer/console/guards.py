"""What every request passes before a page sees it, and the headers every answer gets."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
FORM_BYTES_MAX: Final = 8 << 20
STRANGERS_BYTES_MAX: Final = 16 << 10
OPEN_FORMS: Final = ("/sign-in", "/sign-out")
"""Whose fields are read before it is known who sends them."""


class Guards:
    """`only_local`: nobody signs in, so a page of another site must not reach us under its own name."""

    def __init__(self, app: ASGIApp, *, only_local: bool, is_secure: bool) -> None:
        self._app = app
        self._only_local = only_local
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._set_headers(MutableHeaders(scope=message), request.url.path)
            await send(message)

        await (self._problem(request) or self._app)(scope, receive, send_with_headers)

    def _set_headers(self, headers: MutableHeaders, path: str) -> None:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if self._is_secure:
            headers["strict-transport-security"] = "max-age=31536000"
        if path.startswith("/static/"):
            headers["cache-control"] = "max-age=3600"

    def _problem(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if self._only_local and not _is_local(host):
            # A name that somebody else's DNS points at 127.0.0.1 would make their page "same origin" with ours.
            return _refusal(
                421, f"nobody signs in here, so this console answers to localhost only, not {host[:80]!r}"
            )
        if request.method not in ("POST", "PUT", "PATCH", "DELETE"):
            return None
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return _refusal(403, "the request came from another site")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refusal(403, "the request came from another site")
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            return _refusal(411, "the request does not say how long it is")
        most = STRANGERS_BYTES_MAX if request.url.path in OPEN_FORMS else FORM_BYTES_MAX
        if int(length) > most:
            return _refusal(413, f"a form has at most {most} bytes")
        return None


def _refusal(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
