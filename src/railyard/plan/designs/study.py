"""A plan as one call: read, work out on all cores, keep what is found, write the folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.files import expect_folder
from railyard.plan.designs import files
from railyard.plan.designs.planned import begin
from railyard.plan.designs.planning import Planner
from railyard.plan.designs.summary import answer_of
from railyard.study.folder import slug
from railyard.study.journal import Journal, key_of
from railyard.study.workers import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.plan.designs.files import Face
    from railyard.plan.designs.planned import Planned
    from railyard.result.answers.plan import PlanAnswer
    from railyard.scenario.load import Draft
    from railyard.study.tasks import Workers

STATES = ".points"
"""Folder beside the runs for points that are known already."""


@dataclass(frozen=True)
class Finished:
    """A plan that is done.

    Attributes:
        planned: What was found.
        answer: The same as a document.
        folder: Of its files; None: none were written.
    """

    planned: Planned
    answer: PlanAnswer
    folder: Path | None


def plan(
    draft: Draft,
    *,
    out: Path | None = None,
    pool: Callable[[], Workers] = workers,
    faces: Sequence[Face] = (),
    report: Callable[[str, float], None] | None = None,
) -> Finished:
    """Which cluster to build.

    Args:
        draft: A scenario with `plan.space`.
        out: Where the folder of the plan is put, and what is known meanwhile; None writes nothing.
        pool: Makes what designs are worked out on, closed at the end; this machine's cores where nothing is said.
        faces: Write further files of the answer into the folder.
        report: Called with what is being done, and its share from 0 to 1.

    Raises:
        InputError: The plan is wrong, nothing keeps its constraints, or `out` is no place for a folder.
    """
    if out is not None:
        expect_folder(out)
    planned, section = begin(draft)
    name = draft.scenario.name
    path = None if out is None else out / STATES / f"{slug(name)}-{key_of(str(draft.folder.resolve()), name)[:8]}.jsonl"
    journal = Journal(path)
    several = pool()
    try:
        found = Planner.of(
            draft, planned, section, several, journal, report=report or (lambda _what, _share: None)
        ).run()
    finally:
        several.close()
        journal.close()
    answer = answer_of(found)
    return Finished(found, answer, None if out is None else files.write(found, answer, draft, out, faces))
