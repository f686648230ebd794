"""Context of every request: the person, the person's folder, and the server."""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from railyard.face.web.documents import Health, Login, Person
from railyard.face.web.guard import cookie_for, cookie_of
from railyard.face.web.shelf import Missing, Shelf
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.face.web.journal import JobJournal, Status
    from railyard.face.web.looking import Looking
    from railyard.face.web.settings import ServerSettings


@dataclass(frozen=True)
class ServerState:
    """State of the server, one for all requests.

    Attributes:
        settings: What it was started with.
        journal: Jobs and sessions.
        looking: Checks and estimates.
        status: Where jobs stand, as bytes.
    """

    settings: ServerSettings
    journal: JobJournal
    looking: Looking
    status: Status


@dataclass(frozen=True)
class RequestContext:
    """Context of a request: its person.

    Attributes:
        server: What the server has.
    """

    person: str
    server: ServerState

    @property
    def shelf(self) -> Shelf:
        """The person's files and runs."""
        return Shelf(self.server.settings.folder_of(self.person))


def _context_of(request: Request) -> RequestContext:
    return RequestContext(request.state.person, request.app.state.server)


Context = Annotated[RequestContext, Depends(_context_of)]


@contextmanager
def or_404(words: str) -> Iterator[None]:
    """Refuses a request for something that is not there, or whose name no file can have."""
    try:
        yield
    except (Missing, ValueError, OSError):
        raise HTTPException(404, words) from None


router = APIRouter(tags=["people"])

_SESSION_S = 30 * 86_400


@router.get("/health", response_model=Health)
async def health(request: Request) -> Response:
    """Shows that the server answers, and how busy it is; needs no token."""
    server: ServerState = request.app.state.server
    return Response(server.status.health(), media_type="application/json")


@router.get("/me")
async def me(context: Context) -> Person:
    """Who is asking."""
    return Person(name=context.person, tokens=bool(context.server.settings.people), version=version())


@router.post("/login", status_code=204)
async def login(form: Login, request: Request) -> Response:
    """Turns a token into a cookie that no script can read."""
    server: ServerState = request.app.state.server
    person = server.settings.person_of(form.token)
    if person is None:
        raise HTTPException(401, "nobody has that token")
    secret = secrets.token_urlsafe(32)
    server.journal.open_session(secret, person, server.settings.people[person], time.time() + _SESSION_S)
    return Response(status_code=204, headers={"set-cookie": cookie_for(server.settings, secret, _SESSION_S)})


@router.post("/logout", status_code=204)
async def logout(request: Request, context: Context) -> Response:
    """Forgets the cookie."""
    if secret := cookie_of(request.headers.get("cookie", "")):
        context.server.journal.close_session(secret)
    return Response(status_code=204, headers={"set-cookie": cookie_for(context.server.settings, "", 0)})
