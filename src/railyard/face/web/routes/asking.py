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

    from railyard.face.web.journal import JobJournal
    from railyard.face.web.looking import Looking
    from railyard.face.web.settings import ServerSettings
    from railyard.face.web.status import Status


@dataclass(frozen=True)
class House:
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
class Asking:
    """Context of a request: its person.

    Attributes:
        house: What the server has.
    """

    person: str
    house: House

    @property
    def shelf(self) -> Shelf:
        """The person's files and runs."""
        return Shelf(self.house.settings.folder_of(self.person))


def _asking(request: Request) -> Asking:
    return Asking(request.state.person, request.app.state.house)


Asked = Annotated[Asking, Depends(_asking)]


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
    """That the server answers, and how busy it is; needs no token."""
    house: House = request.app.state.house
    return Response(house.status.health(), media_type="application/json")


@router.get("/me")
async def me(asked: Asked) -> Person:
    """Who is asking."""
    return Person(name=asked.person, tokens=bool(asked.house.settings.people), version=version())


@router.post("/login", status_code=204)
async def login(form: Login, request: Request) -> Response:
    """Turns a token into a cookie that no script can read."""
    house: House = request.app.state.house
    person = house.settings.person_of(form.token)
    if person is None:
        raise HTTPException(401, "nobody has that token")
    secret = secrets.token_urlsafe(32)
    house.journal.open_session(secret, person, house.settings.people[person], time.time() + _SESSION_S)
    return Response(status_code=204, headers={"set-cookie": cookie_for(house.settings, secret, _SESSION_S)})


@router.post("/logout", status_code=204)
async def logout(request: Request, asked: Asked) -> Response:
    """Forgets the cookie."""
    if secret := cookie_of(request.headers.get("cookie", "")):
        asked.house.journal.close_session(secret)
    return Response(status_code=204, headers={"set-cookie": cookie_for(asked.house.settings, "", 0)})
