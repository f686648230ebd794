"""Jobs: in a queue, with progress, to be stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from railyard.face.web.checked import checked
from railyard.face.web.documents import NewJob, QueuedJob
from railyard.face.web.routes.asking import Asked, Asking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

router = APIRouter(tags=["jobs"])

_LOOK_S = 0.25
_QUIET_LOOKS = 60
"""Looks without news after which a comment is sent, so that proxies keep the connection."""


@router.get("/jobs")
async def list_jobs(asked: Asked, since: Annotated[int, Query(ge=0, lt=1 << 62)] = 0) -> list[QueuedJob]:
    """Jobs that changed after the change `since`, latest first."""
    return asked.house.journal.jobs(asked.person, since=since)


@router.post("/jobs", status_code=201)
async def add_job(asked: Asked, request: NewJob) -> QueuedJob:
    """Asks for a run or another verb of `/verbs`; it begins when its turn comes, and outlives the server."""
    journal, limits = asked.house.journal, asked.house.settings.limits
    if journal.count("queued", asked.person) >= limits.queued:
        raise HTTPException(429, f"{limits.queued} jobs of yours wait already")
    return journal.add(asked.person, await run_in_threadpool(checked, request, asked.shelf))


@router.get("/jobs/{job}", response_model=QueuedJob)
async def show_job(asked: Asked, job: str) -> Response:
    """Where a job stands."""
    try:
        return Response(asked.house.status.job(asked.person, job), media_type="application/json")
    except KeyError:
        raise _none(job) from None


@router.post("/jobs/{job}/stop")
async def stop_job(asked: Asked, job: str) -> QueuedJob:
    """Ends a job; one that runs leaves nothing half-written."""
    try:
        return asked.house.journal.stop(asked.person, job)
    except KeyError:
        raise _none(job) from None


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    asked: Asked, request: Request, since: Annotated[int, Query(ge=0, lt=1 << 62)] = 0
) -> StreamingResponse:
    """Server-sent events: a `job` whenever one changed after the change `since`, its number as the event's id."""
    last = request.headers.get("last-event-id", "")
    begin = int(last) if last.isdecimal() and len(last) < 19 else since
    return StreamingResponse(
        _changes(asked, begin), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _changes(asked: Asking, since: int) -> AsyncIterator[str]:
    journal, quiet = asked.house.journal, 0
    yield "retry: 1000\n\n"
    while True:
        found = journal.jobs(asked.person, since=since) if journal.last_change() > since else []
        for job in sorted(found, key=lambda job: job.change):
            since = job.change
            yield f"id: {job.change}\nevent: job\ndata: {job.model_dump_json()}\n\n"
        quiet = 0 if found else quiet + 1
        if quiet >= _QUIET_LOOKS:
            quiet = 0
            yield ": nothing new\n\n"
        await asyncio.sleep(_LOOK_S)


def _none(job: str) -> HTTPException:
    return HTTPException(404, f"there is no job `{job[:80]}`")
