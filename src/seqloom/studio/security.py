"""Who may use the studio: a token for the first request, then a cookie; known hosts and origins only."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class StudioAccess:
    """Token and addresses of one studio."""

    port: int
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie_name(self) -> str:
        """Name of the cookie; browsers share cookies among the ports of a host."""
        return f"seqloom-studio-{self.port}"

    @property
    def cookie(self) -> str:
        """Value of Set-Cookie."""
        return f"{self.cookie_name}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def is_known_host(self, host: str) -> bool:
        """Return whether a Host header is an address of the studio, so that no other name leads to it."""
        return host.lower() in {f"{name}:{self.port}" for name in self.hosts}

    def is_known_origin(self, origin: str) -> bool:
        """Return whether an Origin header is the page itself."""
        parts = urlsplit(origin)
        return parts.scheme == "http" and self.is_known_host(parts.netloc)

    def has_cookie(self, header: str) -> bool:
        """Return whether a Cookie header holds the token."""
        try:
            found = SimpleCookie(header).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and self.is_token(found.value)

    def is_token(self, value: str) -> bool:
        """Return whether this is the token; the comparison takes the same time for every value."""
        return secrets.compare_digest(value.encode(), self.token.encode())

    def refusal(self, headers: Headers, query: QueryParams) -> str:
        """Return why a request is refused; empty if it is not."""
        if not self.is_known_host(headers.get("host", "")):
            return "Unknown host."
        if any(not self.is_known_origin(value) for value in headers.getlist("origin")):
            return "Unknown origin."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and "token" not in query:
            return "Requests from other sites are refused."
        if "token" in query:
            return "" if self.is_token(query["token"]) else "Wrong token."
        if not self.has_cookie(headers.get("cookie", "")):
            return "Open the address that seqloom studio printed; it contains the token."
        return ""


class Guard:
    """ASGI middleware that refuses requests, and adds the headers of every response."""

    def __init__(self, app: ASGIApp, access: StudioAccess) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        query = QueryParams(scope["query_string"])
        reason = self._access.refusal(Headers(scope=scope), query)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "token" in query and not reason:
                    headers["set-cookie"] = self._access.cookie
            await send(message)

        answer = PlainTextResponse(reason, 403) if reason else self._app
        await answer(scope, receive, with_headers)


def allowed_hosts(host: str, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names under which a studio that listens on `host` may be reached."""
    shown = f"[{host}]" if ":" in host else host
    return tuple(dict.fromkeys(("127.0.0.1", "localhost", "[::1]", shown.lower(), *extra)))
