"""The process that runs one job: a request on stdin, a line of JSON on stdout for every change.

The request has `folder`, `memory_bytes`, `ray` (an address or null) and the fields of a `NewJob`; lines have `stage`
and `share`, the last one `outcome` or `faults`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.verb import RUNS, Request, keep, of_page
from railyard.face.web import dispatch
from railyard.face.web.documents import Outcome
from railyard.face.web.looking import faults_of
from railyard.kit import files as processes
from railyard.kit.errors import RailyardError
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from types import FrameType

_EVERY_S = 0.1


def main(parent: str) -> int:
    """Carries out the request on stdin.

    Args:
        parent: Number of the process that asks: without it nobody waits for an answer.
    """
    signal.signal(signal.SIGTERM, _server_is_gone)
    processes.die_with_parent(int(parent), signal.SIGTERM)
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    request = json.loads(sys.stdin.read())
    try:
        answer = _carry_out(request, _Teller(lines))
    except RailyardError as error:
        answer = {"faults": [fault.model_dump(exclude_none=True) for fault in faults_of(error)]}
    except MemoryError:
        limit = request["memory_bytes"] / 2**30
        answer = {"faults": [{"message": f"the run needs more memory than a run may take here ({limit:.1f} GiB)"}]}
    except KeyboardInterrupt:
        return 130
    _write(lines, answer)
    return 0


def _server_is_gone(_number: int, _frame: FrameType | None) -> None:
    """Ends without an answer: `KeyboardInterrupt` asks for partial results, and the next server starts over."""
    raise SystemExit(128 + signal.SIGTERM)


def _carry_out(request: dict[str, Any], tell: _Teller) -> dict[str, Any]:
    folder = Path(request["folder"])
    os.chdir(folder)
    processes.limit_memory(request["memory_bytes"])
    verb, page = of_page(request["verb"])
    files = {name: [folder / file for file in given] for name, given in request["files"].items()}
    dispatch.confine(folder)
    for path in (path for given in files.values() for path in given):
        dispatch.refuse_outside(path, folder)
    cluster = partial(workers, request["ray"], begin=partial(dispatch.confine, folder)) if request["ray"] else None
    wanted = Request(
        draft=partial(dispatch.requested_draft, folder, request["text"], request["file"]),
        progress=tell,
        pool=cluster or partial(workers, begin=partial(dispatch.confine, folder)),
        runs=folder / RUNS,
        engine=request["engine"],
        vary=request["vary"],
        cluster=cluster,
        quiet=True,
    )
    given = {
        one.parameter: files[one.name] if one.several else files[one.name][0]
        for one in verb.inputs
        if files.get(one.name)
    }
    chosen = {name: value for name, value in request["options"].items() if value}
    reply = verb(wanted, **given, **chosen, **page.given(wanted))
    if reply.folder is None and reply.keep is None:  # stopped before anything was found
        raise KeyboardInterrupt
    place = reply.folder if reply.folder is not None else keep(reply, folder / RUNS)
    name = f"{place.relative_to(folder).as_posix()}/{reply.page}" if page.view == "page" else place.name
    return {"outcome": Outcome(view=page.view, name=name).model_dump()}


class _Teller:
    """Passes progress on, not more often than anybody looks."""

    def __init__(self, lines: Any) -> None:
        self.lines = lines
        self.last = 0.0

    def __call__(self, stage: str, share: float) -> None:
        now = time.monotonic()
        if now - self.last >= _EVERY_S:
            self.last = now
            _write(self.lines, {"stage": stage, "share": round(share, 4)})


def _write(lines: Any, answer: dict[str, Any]) -> None:
    lines.write(json.dumps(answer) + "\n")
    lines.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
