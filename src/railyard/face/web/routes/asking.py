"""What every route knows of a request: who asks, what lies in that person's folder, what the server has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from railyard.face.web.shelf import Shelf

if TYPE_CHECKING:
    from railyard.face.web.journal import JobJournal
    from railyard.face.web.looking import Looking
    from railyard.face.web.settings import ServerSettings
    from railyard.face.web.status import Status


@dataclass(frozen=True)
class House:
    """What the server has; one for all requests.

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
    """Who asks.

    Attributes:
        person: The name.
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
