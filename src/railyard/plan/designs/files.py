"""The folder of a plan: `plan.json`, every point in Parquet, and the page."""

from __future__ import annotations

import json
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

from railyard.files import write_frame, write_text
from railyard.plan.designs.summary import scatter, to_json
from railyard.scenario.load import dump
from railyard.study import folder as folders
from railyard.study.provenance import version

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.plan.designs.planned import Planned
    from railyard.scenario.load import Draft

POINTS = "points.parquet"


def write(planned: Planned, draft: Draft, out: Path) -> Path:
    """The folder of a plan, all of it or nothing.

    Args:
        planned: What was found.
        draft: Its scenario.
        out: Where folders of runs are put.

    Raises:
        InputError: It cannot be written.
    """
    plain = dump(draft.scenario)
    name = folders.name_of(plain, version())
    result = to_json(planned)
    with folders.replaced(out, name) as folder:
        write_text(folder / "plan.json", json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
        write_frame(folder / POINTS, _points(planned))
        write_text(folder / "plan.html", page(planned, result))
    return out / name


def page(planned: Planned, result: dict[str, Any]) -> str:
    """One page, offline."""
    import html

    template = resources("railyard").joinpath("plan", "designs", "page.html").read_text(encoding="utf-8")
    data = json.dumps({**result, "scatter": scatter(planned)}, ensure_ascii=False, allow_nan=False)
    return template.replace("{{name}}", html.escape(result["name"])).replace("{{data}}", data.replace("<", "\\u003c"))


def _cell(value: object) -> str:
    """A value of the space as SQL compares it: a name as it is, else JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _points(planned: Planned) -> Any:
    """A row a point, demand and engine."""
    import polars as pl

    rows = []
    for (point, demand, engine), outcome in sorted(planned.outcomes.items()):
        rows.append(
            {
                "point": point,
                "demand": planned.space.demands[demand].name,
                "engine": engine,
                "error": outcome.error or None,
                **{key: _cell(value) for key, value in planned.space.settings(point).items()},
                "layout": json.dumps(outcome.layouts[0]) if outcome.layouts else None,
                "missed": planned.missed.get(point),
                "step_s": outcome.step_s or None,
                **outcome.figures,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)
