"""The load of the network over a step: window by window, of every cable of the hall and every edge of the drawing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.face.web.views import floor, view
from railyard.face.web.views.packed import packed
from railyard.graph.parquet import read_table
from railyard.kit.errors import InputError
from railyard.measure.picture import drawing_of
from railyard.work.study import folder as kept

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Windows = tuple[NDArray[np.int64], NDArray[np.uint8]]

_RUNS = 2
FULL = 255


@view("load")
def windows(question: dict[str, Any]) -> bytes:
    """Starts of windows, the load of the network in each, and that of every edge of the drawing.

    Args:
        question: `folder` of the run, `variant`, `person`.

    Raises:
        InputError: The run kept no load over time.
    """
    plan = floor.plan_of_run(question)
    time_ps, load = _load(question)
    network = plan.cluster.back_end
    drawing = drawing_of(plan.cluster)
    mine = load[:, network.link_offset : network.link_offset + network.wiring.links]
    edges = drawing.busiest(mine)
    used = mine[:, mine.any(axis=0)]
    variant = kept.read_result(Path(question["folder"]) / "result.json").variants[int(question["variant"])]
    picture = drawing.picture(np.zeros(network.wiring.links)).plain()
    return packed(
        {"end_us": variant["step"]["seconds"] * 1e6, "picture": picture, "windows": len(load)},
        {
            "start_us": (time_ps / 1e6).astype(np.float32),
            "mean": (used.mean(axis=1) / FULL if used.size else np.zeros(len(load))).astype(np.float32),
            "most": (mine.max(axis=1, initial=0) / FULL).astype(np.float32),
            "step": drawing.busiest(_over_step(mine, time_ps, variant["step"]["seconds"] * 1e12)).astype(np.float32),
            "edges": edges,
        },
    )


def _over_step(load: NDArray[np.uint8], time_ps: NDArray[np.int64], end_ps: float) -> NDArray[np.float64]:
    """Mean load of every link over all windows, 0 to 1."""
    span = np.diff(np.append(time_ps, end_ps))
    return np.asarray(span @ load / (FULL * max(float(span.sum()), 1.0)), np.float64)


@view("load-cables")
def cables(question: dict[str, Any]) -> bytes:
    """The load of every cable in some windows, the larger one of its two directions, in 255ths.

    Args:
        question: As of `windows`, with `first` and `count` of them.
    """
    plan = floor.plan_of_run(question)
    _, load = _load(question)
    first = min(int(question["first"]), len(load))
    some = load[first : first + int(question["count"])]
    link = plan.cables.link
    both = np.maximum(some[:, link], some[:, np.minimum(link + 1, load.shape[1] - 1)])
    return packed({"first": first, "count": len(some)}, {"load": both})


def _load(question: dict[str, Any]) -> Windows:
    folder, number = Path(question["folder"]), int(question["variant"])
    name = kept.read_result(folder / "result.json").variants[number].name
    file = kept.timeline_of(folder, number, name).with_name("timeline.link_windows.parquet")
    if not file.is_file():
        raise InputError("this run kept no load over time", hint="run it again, on `flow` or `packet`")
    return _read(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=_RUNS)
def _read(file: Path, changed_ns: int) -> Windows:
    del changed_ns
    table = read_table(file, "link_windows")
    return table["time_ps"], table["load"]
