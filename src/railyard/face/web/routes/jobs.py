"""Jobs: what can be asked for, whether a request can be carried out before it waits, and where it stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from railyard.face.verb import of_page, on_page
from railyard.face.web.documents import FileName, FileRow, InputRow, InputSpec, NewJob, OptionSpec, QueuedJob, VerbSpec
from railyard.face.web.routes.context import Context, RequestContext
from railyard.face.web.shelf import Missing
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.files import appearing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping
    from pathlib import Path

    from railyard.face.verb import Input, Page, Verb
    from railyard.face.web.documents import NewJob
    from railyard.face.web.settings import WorkLimits
    from railyard.face.web.shelf import Shelf


router = APIRouter(tags=["jobs"])

_LOOK_S = 0.25
_QUIET_LOOKS = 60
"""Looks without news after which a comment is sent, so that proxies keep the connection."""


@router.get("/jobs")
async def list_jobs(context: Context, since: Annotated[int, Query(ge=0, lt=1 << 62)] = 0) -> list[QueuedJob]:
    """Jobs that changed after the change `since`, latest first."""
    return context.server.journal.jobs(context.person, since=since)


@router.post("/jobs", status_code=201)
async def add_job(context: Context, request: NewJob) -> QueuedJob:
    """Asks for a run or another verb of `/verbs`; it begins when its turn comes, and outlives the server."""
    journal, limits = context.server.journal, context.server.settings.limits
    if journal.count("queued", context.person) >= limits.queued:
        raise HTTPException(429, f"{limits.queued} jobs of yours wait already")
    return journal.add(context.person, await run_in_threadpool(checked, request, context.shelf))


@router.get("/jobs/{job}", response_model=QueuedJob)
async def show_job(context: Context, job: str) -> Response:
    """Where a job stands."""
    try:
        return Response(context.server.status.job(context.person, job), media_type="application/json")
    except KeyError:
        raise _none(job) from None


@router.post("/jobs/{job}/stop")
async def stop_job(context: Context, job: str) -> QueuedJob:
    """Ends a job; one that runs leaves nothing half-written."""
    try:
        return context.server.journal.stop(context.person, job)
    except KeyError:
        raise _none(job) from None


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    context: Context, request: Request, since: Annotated[int, Query(ge=0, lt=1 << 62)] = 0
) -> StreamingResponse:
    """Server-sent events: a `job` whenever one changed after the change `since`, its number as the event's id."""
    last = request.headers.get("last-event-id", "")
    begin = int(last) if last.isdecimal() and len(last) < 19 else since
    return StreamingResponse(
        _changes(context, begin), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _changes(context: RequestContext, since: int) -> AsyncIterator[str]:
    journal, quiet = context.server.journal, 0
    yield "retry: 1000\n\n"
    while True:
        found = journal.jobs(context.person, since=since) if journal.last_change() > since else []
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


def checked(request: NewJob, shelf: Shelf) -> NewJob:
    """The request, named after what it is about.

    Raises:
        InputError: With everything that is wrong with it: an unknown verb, what the verb does not take or lacks, files
            that are not below the folder.
    """
    verb, _page = of_page(request.verb)
    problems = [*_parts(request, verb), *_options(request, verb), *_files(request, verb, shelf)]
    if problems:
        raise InputError.many(problems)
    if "scenario" in verb.parts:
        return request
    first = next(iter(request.files[name][0] for name in (one.name for one in verb.inputs) if request.files.get(name)))
    return request.model_copy(update={"file": first})


def _parts(request: NewJob, verb: Verb) -> Iterator[Problem]:
    if "scenario" in verb.parts and not request.text.strip():
        yield Problem(f"`{request.verb}` takes a scenario", key="text", hint="send its text")
    given = {"scenario": request.text, "engine": request.engine, "vary": request.vary}
    keys = {"scenario": "text"}
    for part, value in given.items():
        if value and part not in verb.parts:
            yield Problem(f"`{request.verb}` takes no {part}", key=keys.get(part, part))


def _options(request: NewJob, verb: Verb) -> Iterator[Problem]:
    known = {option.name: option for option in verb.choices}
    yield from _unknown(request.options, known, request.verb, "options")
    for name, option in known.items():
        value, allowed = request.options.get(name, option.default), option.allowed()
        if value and not allowed:
            try:
                verb.typed(name, value)
            except InputError as error:
                yield from (replace(problem, key=f"options.{name}") for problem in error.problems)
        elif allowed and value not in allowed:
            hint = did_you_mean(value, allowed)
            yield Problem(
                f"this is not a choice of `{name}`",
                key=f"options.{name}",
                found=value,
                allowed=", ".join(allowed),
                hint=hint,
            )


def _files(request: NewJob, verb: Verb, shelf: Shelf) -> Iterator[Problem]:
    known = {one.name: one for one in verb.inputs}
    yield from _unknown(request.files, known, request.verb, "files")
    if verb.inputs and not any(request.files.get(name) for name in known):
        yield Problem(f"`{request.verb}` reads something", key="files", allowed=", ".join(known))
    for name, one in known.items():
        given = request.files.get(name, [])
        if one.needed and not given:
            yield Problem(f"`{request.verb}` needs it", key=f"files.{name}", allowed=one.about)
        if len(given) > 1 and not one.several:
            yield Problem("one is taken", key=f"files.{name}", found=str(len(given)))
        for file in given:
            yield from _there(file, one, shelf)


def _there(file: str, one: Input, shelf: Shelf) -> Iterator[Problem]:
    try:
        path = shelf.given(file)
    except (Missing, ValueError, OSError):
        yield Problem("there is no such file below your folder", key=f"files.{one.name}", found=file[:200])
        return
    if one.takes != "either" and path.is_dir() != (one.takes == "folder"):
        found = "a folder" if path.is_dir() else "a file"
        yield Problem(f"this is {found}, expected a {one.takes}", key=f"files.{one.name}", found=file[:200])


def _unknown(given: Mapping[str, Any], known: Collection[str], verb: str, what: str) -> Iterator[Problem]:
    for name in given:
        if name not in known:
            allowed = ", ".join(known) or "none"
            hint = did_you_mean(name, known)
            yield Problem(f"`{verb}` knows no `{name}`", key=what, found=name, allowed=allowed, hint=hint)


verbs = APIRouter(tags=["verbs"])


@verbs.get("/verbs")
def list_verbs() -> list[VerbSpec]:
    """Everything that can be asked for, and what each is given."""
    return [_spec(name, verb, page) for name, (verb, page) in on_page().items()]


@verbs.get("/inputs")
def list_inputs(context: Context) -> list[InputRow]:
    """Files and folders that can be given to a verb, the latest first."""
    return context.shelf.inputs()


_RAW = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


@verbs.put("/uploads", openapi_extra=_RAW)
async def upload(context: Context, request: Request, file: Annotated[FileName, Query()]) -> FileRow:
    """Puts the body under `uploads/`; the file appears whole or not at all, in place of one of the same name."""
    shelf, limits = context.shelf, context.server.settings.limits
    path = shelf.upload_to(file)
    _refuse_more(shelf, limits)
    size = await _stored(request, path)
    name = path.relative_to(shelf.folder).as_posix()
    return FileRow(file=name, bytes=size, changed=path.stat().st_mtime)


@verbs.delete("/uploads", status_code=204)
def remove_upload(context: Context, file: Annotated[FileName, Query()]) -> None:
    """Removes a file that was uploaded."""
    path = context.shelf.upload_to(file)
    if path.is_symlink() or not path.is_file():
        raise HTTPException(404, f"there is no upload `{file[:80]}`")
    path.unlink()


async def _stored(request: Request, path: Path) -> int:
    """Bytes that arrived; the guard ends what grows too large."""
    size = 0
    try:
        with appearing(path) as unfinished, unfinished.open("wb") as out:
            async for chunk in request.stream():
                size += out.write(chunk)
    except ClientDisconnect:
        raise HTTPException(413, "the file arrived incomplete, or is too large") from None
    return size


def _refuse_more(shelf: Shelf, limits: WorkLimits) -> None:
    count, size = shelf.uploaded()
    if count >= limits.uploads or size >= limits.uploads_bytes:
        raise HTTPException(
            413, f"{count} uploads of {size >> 20} MiB are there already: remove some, in the folder `uploads`"
        )


def _spec(name: str, verb: Verb, page: Page) -> VerbSpec:
    return VerbSpec(
        name=name,
        title=page.title,
        about=page.about,
        scenario="scenario" in verb.parts,
        engine="engine" in verb.parts,
        vary="vary" in verb.parts,
        inputs=[InputSpec(**{key: vars(one)[key] for key in InputSpec.model_fields}) for one in verb.inputs],
        options=[OptionSpec(**{**vars(one), "allowed": list(one.allowed())}) for one in verb.choices],
    )
