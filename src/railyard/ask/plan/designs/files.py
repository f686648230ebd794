"""The folder of a plan: `plan.json`, every point in Parquet, and what faces add."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.kit.files import write_frame, write_text
from railyard.work.scenario.load import dump
from railyard.work.study import folder as folders
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.ask.plan.designs.planned import Planned
    from railyard.measure.result.answers.plan import PlanAnswer
    from railyard.work.scenario.load import Draft

    Face = Callable[[PlanAnswer, Path], None]

POINTS = "points.parquet"


def write(planned: Planned, answer: PlanAnswer, draft: Draft, out: Path, faces: Sequence[Face] = ()) -> Path:
    """The folder of a plan, all of it or nothing.

    Args:
        planned: What was found.
        answer: The same as a document.
        draft: Its scenario.
        out: Where folders of runs are put.
        faces: Write further files of the answer into the folder.

    Raises:
        InputError: It cannot be written.
    """
    name = folders.name_of(dump(draft.scenario), version())
    with folders.replaced(out, name) as folder:
        write_text(folder / "plan.json", answer.text())
        write_frame(folder / POINTS, _points(planned))
        for face in faces:
            face(answer, folder)
    return out / name


def _cells(values: Sequence[object]) -> list[Any]:
    """The values of a key as SQL compares them: numbers and names as they are, anything else and mixtures as JSON."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def _points(planned: Planned) -> Any:
    """A row a point, demand and engine."""
    import polars as pl

    space, rows = planned.space, []
    cells = [_cells([node.plain() for node in nodes]) for nodes in space.values]
    for (point, demand, engine), outcome in sorted(planned.outcomes.items()):
        rows.append(
            {
                "point": point,
                "demand": space.demands[demand].name,
                "engine": engine,
                "error": outcome.error or None,
                **{
                    key: cells[at][value]
                    for at, (key, value) in enumerate(zip(space.keys, space.place(point), strict=True))
                },
                "layout": json.dumps(outcome.layouts[0]) if outcome.layouts and outcome.layouts[0] else None,
                "missed": planned.missed.get(point),
                "step_s": outcome.step_s or None,
                **outcome.figures,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)
