"""One HTML page of a run, offline: nodes against time, queue and use, what became of the time, who slowed whom."""

from __future__ import annotations

import base64
import html
import json
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.operate.loop import Operation

COLUMNS = 400
ROWS = 256
"""Cells of the heat map at most; several nodes or moments share one."""


def write(run: Operation, name: str, figures: Mapping[str, Any], path: Path) -> None:
    """Writes the page; it appears complete or not at all.

    Args:
        run: That has ended.
        name: Of the variant.
        figures: As in `result.json`.
        path: Where to.
    """
    template = resources("railyard").joinpath("operate", "page.html").read_text(encoding="utf-8")
    series = run.ledger.columns("series")
    data = {
        "heat": heat(run),
        "series": {key: _thinned(series[key]) for key in ("time_us", "waiting", "busy", "out_nodes")},
        "accelerators": run.state.tree.total,
        "time": figures["time"],
        "slowed_by": figures["slowed_by"],
        "usd": figures.get("usd"),
    }
    text = json.dumps(data).replace("<", "\\u003c")
    unfinished = path.with_name(path.name + ".tmp")
    page = template.replace("{{name}}", html.escape(name)).replace("{{data}}", text)
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(path)


def heat(run: Operation) -> dict[str, Any]:
    """Share of the accelerators of some nodes that jobs had during a span, as bytes from 0 to 255, row by row."""
    share = busy_share(run)
    return {
        "rows": share.shape[0],
        "columns": share.shape[1],
        "nodes": run.state.tree.nodes,
        "span_s": run.ledger.time_us / 1e6,
        "cells": base64.b64encode(np.rint(share * 255).astype(np.uint8).tobytes()).decode(),
    }


def busy_share(run: Operation) -> NDArray[np.float64]:
    """float64[rows, columns], see `heat`."""
    tree, span = run.state.tree, max(run.ledger.time_us, 1)
    rows, columns = min(ROWS, tree.nodes), COLUMNS
    row = np.arange(tree.nodes) * rows // tree.nodes
    changes = np.zeros((rows, columns + 2))
    table = run.ledger.columns("allocations")
    count = table["count"]
    nodes = row[np.array(run.ledger.nodes, np.int64)]
    each = np.repeat(np.array(run.state.each)[table["job"]], count)
    for key, sign in (("start_us", 1.0), ("end_us", -1.0)):
        at = np.repeat(table[key], count) / span * columns
        cell, part = at.astype(np.int64), at % 1.0
        np.add.at(changes, (nodes, cell), sign * each * (1 - part))
        np.add.at(changes, (nodes, cell + 1), sign * each * part)
    total = np.bincount(row, tree.accelerators, minlength=rows)
    return np.asarray(np.clip(np.cumsum(changes[:, :columns], axis=1) / total[:, None], 0.0, 1.0))


def _thinned(values: NDArray[np.int64]) -> list[int]:
    step = max(1, len(values) // 1000)
    found: list[int] = values[::step].tolist()
    return found
