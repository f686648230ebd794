"""What a list of runs and answers says of each: the comparison as the command line prints it, or a sentence."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from railyard.face.api import words
from railyard.face.api.compared import comparison
from railyard.face.web.documents import AnswerRow, RunRow
from railyard.kit.errors import InputError
from railyard.kit.files import read_bytes
from railyard.measure.result.answers.answer import NAMES, answer_from
from railyard.measure.result.reading import result_from
from railyard.measure.result.result import kind_of

if TYPE_CHECKING:
    from pathlib import Path


@lru_cache(maxsize=4096)
def head_of(path: Path, changed_ns: int) -> RunRow | None:
    """The head of a result, or None where this version cannot read it.

    Args:
        path: The file `result.json`, in the folder of its run.
        changed_ns: When it was written: another time is another result.
    """
    del changed_ns
    try:
        result = result_from(read_bytes(path))
    except (OSError, InputError):
        return None
    found = comparison(result)
    return RunRow(
        run=path.parent.name,
        name=result.name,
        engine=result.provenance.engine,
        created=result.provenance.created or "",
        version=result.provenance.version,
        kind=kind_of(result.variants[0]) or "unknown",
        columns=list(found.headings),
        rows=[list(cells) for cells in found.rows],
        sentence=words.why(result),
    )


@lru_cache(maxsize=4096)
def answer_head_of(path: Path, changed_ns: int) -> AnswerRow | None:
    """The head of an answer, or None where this version cannot read it.

    Args:
        path: Its document.
        changed_ns: When it was written.
    """
    try:
        answer = answer_from(read_bytes(path))
    except (OSError, InputError):
        return None
    return AnswerRow(
        answer=path.parent.name,
        kind=NAMES[type(answer)],
        name=answer.name,
        sentence=answer.sentence(),
        changed=changed_ns / 1e9,
        hall=(path.parent / "scenario.yaml").is_file(),
    )
