"""The process that looks at scenarios while they are typed, and into runs: a line asks on stdin, a line answers.

Its first line says that it is ready.
A question has `verb` and `person`, the folder of whoever asks. `check` and `estimate` have `text` and `file`; the
answer is a `Checked` or an `Estimated`. Verbs of `views/` have what stands there; the answer has `packed` (base64),
`head`, or `faults`. Whoever starts the process kills it when an answer takes too long, and starts another.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.web import dispatch
from railyard.face.web.documents import Checked, DecisionFigure, Estimated, TextFault
from railyard.face.web.looking import faults_of
from railyard.face.web.views import views
from railyard.kit import files
from railyard.kit.errors import RailyardError
from railyard.measure.result.reading import Result
from railyard.work.study import explain
from railyard.work.study.presentation import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from railyard.face.web.views import PageView


def main(folder: str, memory_bytes: str, parent: str) -> int:
    """Answers until stdin ends.

    Args:
        folder: Folder of its user.
        memory_bytes: What it may take.
        parent: Number of the process that asks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    files.die_with_parent(int(parent), signal.SIGTERM)
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.chdir(folder)
    files.limit_memory(int(memory_bytes))
    dispatch.confine(Path(folder))
    views.items()
    lines.write("{}\n")  # ready: the time of an answer counts from here
    lines.flush()
    for line in sys.stdin:
        answer = _answer(Path(folder), json.loads(line))
        lines.write(answer + "\n")
        lines.flush()
    return 0


def _answer(folder: Path, question: dict[str, Any]) -> str:
    look = _LOOKS.get(question["verb"])
    if look is None:
        return json.dumps(_seen(views.get(question["verb"]), question), ensure_ascii=False, default=_plain)
    return look(folder, question).model_dump_json()


def _plain(found: Any) -> Any:
    """Tables of a view as JSON values."""
    return {**vars(found), "right": list(found.to_right)} if isinstance(found, Sheet) else list(found)


def _seen(view: PageView, question: dict[str, Any]) -> dict[str, Any]:
    try:
        found = view.ask(question)
    except RailyardError as error:
        return {"faults": [fault.model_dump() for fault in faults_of(error)]}
    except MemoryError:
        return {"faults": [TextFault(message="it needs too much memory").model_dump()]}
    return {"packed": base64.b64encode(found).decode()} if isinstance(found, bytes) else {"head": found}


def _check(folder: Path, question: dict[str, Any]) -> Checked:
    try:
        draft = dispatch.requested_draft(folder, question["text"], question["file"])
        kind, engine = explain.checked(draft)
    except RailyardError as error:
        return Checked(faults=faults_of(error))
    return Checked(faults=[], name=draft.title, kind=kind, engine=engine)


def _estimate(folder: Path, question: dict[str, Any]) -> Estimated:
    begin = time.monotonic()
    try:
        found = explain.estimate(dispatch.requested_draft(folder, question["text"], question["file"]))
    except RailyardError as error:
        return Estimated(faults=faults_of(error), took_s=time.monotonic() - begin)
    except MemoryError:
        return Estimated(faults=faults_of(RailyardError("it needs too much memory")), took_s=time.monotonic() - begin)
    took_s = time.monotonic() - begin
    if isinstance(found, Result):
        return Estimated(faults=[], result=found.plain(), took_s=took_s)
    return Estimated(faults=[], figures=[DecisionFigure(**vars(one)) for one in found], took_s=took_s)


_LOOKS: dict[str, Callable[[Path, dict[str, Any]], BaseModel]] = {"check": _check, "estimate": _estimate}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
