"""Whether the server answers, who is asking, and a cookie for a token."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Request, Response

from railyard.face.web.documents import Health, Login, Person
from railyard.face.web.guard import cookie_for, cookie_of
from railyard.face.web.routes.asking import Asked
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from railyard.face.web.routes.asking import House

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
