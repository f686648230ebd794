"""Views of runs and clusters on the page: a function with `@view` a file.

A view with a title stands on the page of every run for which `fits` holds. It gives tables (`Sheet`), or columns
(`packed`) that `frontend/src/ui/pages/NAME.tsx` draws.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.measure.result.reading import Result


@dataclass(frozen=True)
class PageView:
    """A view.

    Attributes:
        ask: Given the question, such as the `folder` of a run and the number of its `variant`: tables, JSON values, or
            columns as bytes.
        title: What the page calls it; empty: it has a route and a page of its own.
        fits: Whether a result has it.
    """

    ask: Callable[[dict[str, Any]], Any]
    title: str = ""
    fits: Callable[[Result], bool] = lambda _result: True


views: Registry[PageView] = Registry("view", package="railyard.face.web.views")


def shown_result(question: dict[str, Any]) -> Result:
    """The result of the run that a question is about."""
    from railyard.work.study.folder import read_result  # it reads scenarios, whose sections a user's file may add

    return read_result(Path(question["folder"]) / "result.json")


def view(name: str, title: str = "", **how: Any) -> Callable[[Callable[[dict[str, Any]], Any]], Any]:
    """Registers a function as a view; the arguments are those of `PageView`."""

    def register(ask: Callable[[dict[str, Any]], Any]) -> Any:
        views.add(name, PageView(ask, title, **how))
        return ask

    return register


_ALIGNED = 8
_KINDS = ("uint8", "int16", "int32", "float32")
"""Types of columns: one line each in `frontend/src/ui/packed.ts`."""


def packed(head: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> bytes:
    """A JSON head after its length (uint32, little-endian), then each column at a multiple of eight bytes.

    A browser reads the columns in place.

    Args:
        head: JSON values; `columns` is added: name, kind, count and offset of each, counted from the end of the head.
        columns: By name, each of a kind in `_KINDS`.
    """
    rows, at, parts = [], 0, []
    for name, column in columns.items():
        if column.dtype.name not in _KINDS:
            raise TypeError(f"column {name} is of {column.dtype}")
        data = np.ascontiguousarray(column).ravel().astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
        rows.append({"name": name, "kind": column.dtype.name, "count": int(column.size), "offset": at})
        parts.append(data + b"\0" * (-len(data) % _ALIGNED))
        at += len(parts[-1])
    text = json.dumps({**head, "columns": rows}, ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-(len(text) + 4) % _ALIGNED)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)
