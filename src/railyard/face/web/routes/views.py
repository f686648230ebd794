"""Data too large for a result: the hall of a run's cluster, and its timeline at any zoom."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse, Response

from railyard.face.web.documents import (
    DraftText,
    FileName,
    FileRow,
    Marks,
    Moment,
    RecordWindow,
    RefusalBody,
    Repriced,
    RequestWindow,
    SliceSeen,
    Strips,
    ViewTitle,
    Window,
)
from railyard.face.web.looking import TooSlow
from railyard.face.web.routes.context import Context, RequestContext, or_404

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(tags=["views"])

_COLUMNS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {}},
        "description": "Columns, see `railyard.face.web.views`.",
    }
}

_TIMELINE = "timeline.parquet"

Variant = Annotated[int, Query(ge=0, lt=1000, description="Its number in the result.")]


@router.get("/runs/{run}/hall", response_class=Response, responses=_COLUMNS)
async def hall(context: Context, run: str, variant: Variant = 0) -> Response:
    """Racks and devices of a run's cluster as they would stand."""
    return await _packed(context, "hall", {"folder": str(_run(context, run)), "variant": variant})


@router.get("/runs/{run}/cables", response_class=Response, responses=_COLUMNS)
async def cables(context: Context, run: str, variant: Variant = 0) -> Response:
    """Every cable of that cluster, with its load in the run."""
    return await _packed(context, "cables", {"folder": str(_run(context, run)), "variant": variant})


@router.get("/runs/{run}/load", response_class=Response, responses=_COLUMNS)
async def load_over_time(context: Context, run: str, variant: Variant = 0) -> Response:
    """How busy the network was in windows of the step: in all, and edge by edge of its drawing."""
    return await _packed(context, "load", {"folder": str(_run(context, run)), "variant": variant})


@router.get("/runs/{run}/load/cables", response_class=Response, responses=_COLUMNS)
async def load_of_cables(
    context: Context,
    run: str,
    first: Annotated[int, Query(ge=0, lt=1 << 20)] = 0,
    count: Annotated[int, Query(ge=1, le=400)] = 1,
    variant: Variant = 0,
) -> Response:
    """The load of every cable of the hall in some of these windows, in 255ths, window after window."""
    about = {"folder": str(_run(context, run)), "variant": variant, "first": first, "count": count}
    return await _packed(context, "load-cables", about)


@router.get("/runs/{run}/requests", response_class=Response, responses=_COLUMNS)
async def requests(context: Context, run: str, variant: Variant = 0) -> Response:
    """How many requests waited and were answered over time, and the distributions of their latencies."""
    return await _packed(context, "requests", {"path": _kept(context, run, variant, "requests.parquet")})


@router.get("/runs/{run}/requests/rows", response_class=Response, responses=_COLUMNS)
async def request_rows(context: Context, run: str, seen: Annotated[RequestWindow, Query()]) -> Response:
    """Some requests with the parts of their time."""
    path = _kept(context, run, seen.variant, "requests.parquet")
    return await _packed(context, "request-rows", {"path": path, **seen.model_dump(exclude={"variant"})})


@router.get("/runs/{run}/views", response_model=list[ViewTitle])
async def views_of_run(context: Context, run: str) -> Any:
    """The further views of a run: names and titles."""
    return await _seen(context, "views", {"folder": str(_run(context, run))})


@router.get("/runs/{run}/views/{view}", response_model=None, responses=_COLUMNS)
async def view_of_run(context: Context, run: str, view: str, variant: Variant = 0) -> Any:
    """One of them: tables, or columns that a page of its own draws."""
    folder = str(_run(context, run))
    named = await _seen(context, "views", {"folder": folder})
    if isinstance(named, Response):
        return named
    if view not in [one["name"] for one in named]:
        raise HTTPException(404, f"the run has no view `{view[:80]}`")
    answer = await _ask(context, view, {"folder": folder, "variant": variant})
    return answer if isinstance(answer, Response) else answer.get("head") or _columns(answer["packed"])


@router.get("/answers/{answer}/hall", response_class=Response, responses=_COLUMNS)
async def hall_of_answer(context: Context, answer: str) -> Response:
    """Racks and devices of the cluster that an answer is about."""
    return await _packed(context, "hall", {"answer": _answer(context, answer)})


@router.get("/answers/{answer}/cables", response_class=Response, responses=_COLUMNS)
async def cables_of_answer(context: Context, answer: str) -> Response:
    """Every cable of that cluster; nothing has a load."""
    return await _packed(context, "cables", {"answer": _answer(context, answer)})


@router.get("/answers/{answer}/marks", response_model=Marks)
async def marks_of_answer(context: Context, answer: str) -> Any:
    """Where in that hall each finding is."""
    return await _seen(context, "marks", {"answer": _answer(context, answer)})


@router.post("/hall", response_class=Response, responses=_COLUMNS)
async def planned_hall(context: Context, draft: DraftText) -> Response:
    """Racks and devices of a scenario's cluster, before any run."""
    return await _packed(context, "hall", draft.model_dump())


@router.post("/cables", response_class=Response, responses=_COLUMNS)
async def planned_cables(context: Context, draft: DraftText) -> Response:
    """Every cable of that cluster; nothing has a load yet."""
    return await _packed(context, "cables", draft.model_dump())


@router.get("/runs/{run}/timeline", response_model=Strips)
async def timeline(context: Context, run: str, variant: Variant = 0) -> Any:
    """Lanes, looks and length of a timeline."""
    return await _seen(context, "strips", {"path": _kept(context, run, variant, _TIMELINE)})


@router.get("/runs/{run}/timeline/window", response_class=Response, responses=_COLUMNS)
async def window(context: Context, run: str, seen: Annotated[Window, Query()]) -> Response:
    """What lanes did between two moments, a look and a busy share a pixel."""
    about = seen.model_dump(exclude={"variant"})
    return await _packed(context, "window", {"path": _kept(context, run, seen.variant, _TIMELINE), **about})


@router.get("/runs/{run}/timeline/slice", response_model=SliceSeen)
async def slice_at(
    context: Context,
    run: str,
    lane: Annotated[int, Query(ge=0, lt=1 << 31)],
    at_us: Annotated[Moment, Query()],
    variant: Variant = 0,
) -> Any:
    """The slice of a lane at a moment; nothing but nulls where there is none."""
    return await _seen(
        context, "slice", {"path": _kept(context, run, variant, _TIMELINE), "lane": lane, "at_us": at_us}
    )


@router.get("/records")
def list_records(context: Context) -> list[FileRow]:
    """Records of what was measured, outside of runs."""
    return context.shelf.records()


@router.get("/record/timeline", response_model=Strips)
async def record_timeline(context: Context, file: Annotated[FileName, Query()]) -> Any:
    """Lanes, looks and length of such a record."""
    return await _seen(context, "strips", {"path": _measured(context, file)})


@router.get("/record/timeline/window", response_class=Response, responses=_COLUMNS)
async def record_window(context: Context, seen: Annotated[RecordWindow, Query()]) -> Response:
    """What its lanes did between two moments, a look and a busy share a pixel."""
    about = seen.model_dump(exclude={"variant", "file"})
    return await _packed(context, "window", {"path": _measured(context, seen.file), **about})


@router.get("/record/timeline/slice", response_model=SliceSeen)
async def record_slice(
    context: Context,
    file: Annotated[FileName, Query()],
    lane: Annotated[int, Query(ge=0, lt=1 << 31)],
    at_us: Annotated[Moment, Query()],
) -> Any:
    """The slice of one of its lanes at a moment; nothing but nulls where there is none."""
    return await _seen(context, "slice", {"path": _measured(context, file), "lane": lane, "at_us": at_us})


@router.get("/prices", response_model=Repriced)
async def prices(
    context: Context,
    run: Annotated[list[str], Query(min_length=1, max_length=20)],
    change: Annotated[list[str], Query(max_length=20, description="Each `name:value`.")] = [],  # noqa: B006 - read only
) -> Any:
    """What runs would cost at other prices, and at which price the choice would turn."""
    changes = {}
    for text in change:
        name, _, value = text.partition(":")
        try:
            changes[name] = float(value)
        except ValueError:
            raise HTTPException(400, f"`{text[:80]}` is no `name:value`") from None
    return await _seen(context, "prices", {"folders": [str(_run(context, one)) for one in run], "changes": changes})


def _run(context: RequestContext, run: str) -> Path:
    with or_404(f"there is no run `{run[:80]}`"):
        return context.shelf.run(run)


def _answer(context: RequestContext, answer: str) -> str:
    with or_404(f"there is no answer `{answer[:80]}`"):
        return str(context.shelf.answer(answer).parent)


def _measured(context: RequestContext, file: str) -> str:
    with or_404(f"there is no record `{file[:80]}`"):
        return str(context.shelf.record(file))


def _kept(context: RequestContext, run: str, variant: int, name: str) -> str:
    with or_404(f"variant {variant} of a run `{run[:80]}` kept no {name}"):
        return str(context.shelf.kept(run, variant, name))


async def _seen(context: RequestContext, verb: str, about: dict[str, Any]) -> Any:
    answer = await _ask(context, verb, about)
    return answer if isinstance(answer, Response) else answer["head"]


async def _packed(context: RequestContext, verb: str, about: dict[str, Any]) -> Response:
    answer = await _ask(context, verb, about)
    return answer if isinstance(answer, Response) else _columns(answer["packed"])


def _columns(packed: str) -> Response:
    # Compressing megabytes of numbers takes longer than a loopback or a local network takes to carry them.
    plain = {"content-encoding": "identity"}
    return Response(base64.b64decode(packed), media_type="application/octet-stream", headers=plain)


async def _ask(context: RequestContext, verb: str, about: dict[str, Any]) -> dict[str, Any] | Response:
    try:
        answer = await context.server.looking.ask(context.person, verb, about)
    except TooSlow:
        raise HTTPException(422, "this takes too long, or too much memory, to look at") from None
    if "faults" in answer:
        body = RefusalBody(error=answer["faults"][0]["message"], faults=answer["faults"])
        return JSONResponse(body.model_dump(), status_code=400)
    return answer
