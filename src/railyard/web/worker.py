"""The process that runs one job: a request on stdin, a line of JSON on stdout for every change.

The request has `folder`, `text`, `file`, `engine`, `vary`, `memory_bytes`; lines have `stage` and `share`, the last one
`run` (name of the folder) or `faults`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from railyard import api
from railyard.errors import RailyardError
from railyard.scenario import load
from railyard.study import inputs
from railyard.web import sandbox
from railyard.web.faults import faults_of

RUNS = "runs"
"""Where runs are put, as the command line does."""

_EVERY_S = 0.1


def main() -> int:
    """Carries out the request on stdin."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sandbox.die_with_parent()
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


def _carry_out(request: dict[str, Any], tell: _Teller) -> dict[str, Any]:
    folder = Path(request["folder"])
    os.chdir(folder)
    sandbox.limit_memory(request["memory_bytes"])
    sandbox.confine(folder)
    draft = load.from_text(request["text"], folder / request["file"])
    for path in inputs.files_of(draft).values():
        sandbox.refuse_outside(path, folder)
    finished = api.execute(draft, request["vary"], engine=request["engine"], out=folder / RUNS, progress=tell)
    return {"run": finished.folder.name if finished.folder else None}


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
    sys.exit(main())
