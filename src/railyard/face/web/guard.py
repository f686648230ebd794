"""Access control: host, origin, token or cookie, size, rate; and what browsers may do with answers."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from railyard.face.web.settings import LOCAL, is_loopback

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from railyard.face.web.journal import JobJournal
    from railyard.face.web.settings import ServerSettings

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "railyard"
API = "/api/"
OPEN = frozenset({"/api/v1/login", "/api/v1/health", "/api/v1/openapi.json"})
"""Paths that answer without a token."""

UPLOADS = "/api/v1/uploads"
"""Paths that take files."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none';"
        b" base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Refused(Exception):
    """A request that is answered by the guard."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


@dataclass
class _Bucket:
    """Limit of requests a minute, and of requests at once."""

    left: float
    since: float = field(default_factory=time.monotonic)

    def take(self, per_min: int) -> bool:
        now = time.monotonic()
        self.left = min(float(per_min), self.left + (now - self.since) * per_min / 60.0)
        self.since = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Guard:
    """ASGI middleware in front of everything.

    Args:
        app: What answers those who are let in; finds the person under `scope["state"]["person"]`.
        settings: Of the server.
        journal: Knows cookies.
    """

    def __init__(self, app: App, settings: ServerSettings, journal: JobJournal) -> None:
        self.app = app
        self.settings = settings
        self.journal = journal
        self._buckets: dict[str, _Bucket] = {}
        self._names = {settings.host, *settings.names} | ({"localhost", "127.0.0.1", "[::1]", "::1"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._admit(scope)
        except Refused as refusal:
            await _answer(send, refusal)
            return
        await self.app(scope, _Counted(receive, self._most(scope)), _with_headers(send))

    def _admit(self, scope: Scope) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._check_host(headers.get("host", ""))
        self._check_origin(scope, headers)
        _check_length(headers.get("content-length", "0"), self._most(scope))
        person = self._person(headers)
        path = scope["path"]
        if person is None and path.startswith(API) and path not in OPEN:
            raise Refused(401, "a token is needed: send `Authorization: Bearer TOKEN`, or log in")
        changes = scope["method"] not in _SAFE
        if changes and not self._allowed(person or f"address {(scope.get('client') or ['?'])[0]}"):
            raise Refused(429, f"more than {self.settings.limits.writes_per_min} requests a minute: wait a little")
        scope.setdefault("state", {})["person"] = person

    def _most(self, scope: Scope) -> int:
        """Bytes that the body of a request may have."""
        limits = self.settings.limits
        return limits.upload_bytes if scope["path"] == UPLOADS else limits.body_bytes

    def _check_host(self, host: str) -> None:
        """A page of another name that resolves to this machine (DNS rebinding) sends its name."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name not in self._names and not (self.settings.proxied and self.settings.people):
            raise Refused(421, f"this server does not answer as `{name[:80]}`: start it with `--name {name[:80]}`")

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuses what another site's page sends in a browser's name."""
        if headers.get("sec-fetch-site") in {"cross-site", "same-site"} and scope["path"].startswith(API):
            raise Refused(403, "requests from pages of other sites are refused")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise Refused(403, "requests from pages of other sites are refused")

    def _person(self, headers: dict[str, str]) -> str | None:
        if not self.settings.people:
            return LOCAL
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.settings.person_of(token.strip())
        secret = cookie_of(headers.get("cookie", ""))
        return self.journal.owner_of(secret, self.settings.people) if secret else None

    def _allowed(self, who: str) -> bool:
        per_min = self.settings.limits.writes_per_min
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        return self._buckets.setdefault(who, _Bucket(float(per_min))).take(per_min)


def cookie_of(header: str) -> str | None:
    """The session in a request's cookies."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def cookie_for(settings: ServerSettings, secret: str, seconds: int) -> str:
    """The header that sets the session's cookie: no script reads it, no other site sends it."""
    secure = "" if is_loopback(settings.host) and settings.certificate is None and not settings.proxied else "; Secure"
    return f"{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}"


class _Counted:
    """Reads a body, and no more of it than may come."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.receive = receive
        self.left = most

    async def __call__(self) -> Message:
        message = await self.receive()
        self.left -= len(message.get("body", b""))
        if self.left < 0:
            return {"type": "http.disconnect"}
        return message


def _check_length(text: str, most: int) -> None:
    if not text.isdecimal() or int(text[:12]) > most:
        raise Refused(413, f"a request may have {most:,} bytes at most")


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            named = {name for name, _ in given}
            message["headers"] = [*given, *(row for row in _HEADERS if row[0] not in named)]
        await send(message)

    return sent


async def _answer(send: Send, refusal: Refused) -> None:
    body = json.dumps({"error": refusal.error, "faults": []}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
