"""States of jobs, as bytes: what pages, programs and load balancers ask most often is answered before any routing.

An answer is made once for each change of the jobs and sent as it is until the next; routes that describe these answers
send the same bytes.
"""

from __future__ import annotations

import time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from railyard.face.web.documents import Health, Template
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from railyard.face.web.journal import JobJournal


_ABOUT = (
    ("fabrics", "Which fabric? Six fabrics for one training job, with their prices."),
    ("layout", "Which layout? Every layout of a training job that fits, the best ones simulated."),
    ("oversubscription", "How many uplinks does this job pay for?"),
    ("serving", "A model that answers requests: latency, goodput, cost of a million tokens."),
)


@cache
def templates() -> list[Template]:
    """Each with its text."""
    commented = files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")
    return [
        *(Template(name=name, about=about, text=_text(name)) for name, about in _ABOUT),
        Template(name="commented", about="Every part of a scenario, explained where it stands.", text=commented),
    ]


def _text(name: str) -> str:
    return files("railyard.face.web").joinpath("starters", f"{name}.yaml").read_text(encoding="utf-8")


HEALTH = "/api/v1/health"
JOB = "/api/v1/jobs/"

_FRESH_S = 0.5
"""How long an answer may be sent without a change: the time to go is a guess from the clock."""
_MOST = 4096
"""Maximum number of cached answers; beyond that all are recomputed."""


class Status:
    """Answers by the number of the last change."""

    def __init__(self, journal: JobJournal) -> None:
        self._journal = journal
        self._kept: dict[tuple[str, str], bytes] = {}
        self._stamp, self._until = (-1, -1), 0.0

    def health(self) -> bytes:
        """A `Health`."""
        return self._answer(("", ""), self._health)

    def job(self, owner: str, name: str) -> bytes:
        """A `QueuedJob`.

        Raises:
            KeyError: That person has no such job.
        """
        return self._answer((owner, name), lambda: self._journal.job(owner, name).model_dump_json())

    def _health(self) -> str:
        counts = {state: self._journal.count(state) for state in ("running", "queued")}
        return Health(version=version(), running=counts["running"], queued=counts["queued"]).model_dump_json()

    def _answer(self, key: tuple[str, str], make: Callable[[], str]) -> bytes:
        now, stamp = time.monotonic(), self._journal.stamp()
        if stamp != self._stamp or now >= self._until or len(self._kept) >= _MOST:
            self._kept.clear()
            self._stamp, self._until = stamp, now + _FRESH_S
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make().encode()
        return found


class StatusFirst:
    """ASGI middleware that answers for `Status` and passes on what it has no answer to.

    Args:
        app: What answers everything else.
        status: Knows where jobs stand.
    """

    def __init__(self, app: ASGIApp, status: Status) -> None:
        self.app = app
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        body = self._body(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if body is None:
            await self.app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _body(self, scope: Scope) -> bytes | None:
        path = scope["path"]
        if path == HEALTH:
            return self.status.health()
        if not path.startswith(JOB):
            return None
        try:
            return self.status.job(scope["state"]["person"], path[len(JOB) :])
        except KeyError:
            return None
