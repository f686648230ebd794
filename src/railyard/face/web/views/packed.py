"""Columns as bytes: a JSON head, then each column at a multiple of eight bytes; a browser reads them in place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_ALIGNED = 8
_KINDS = ("uint8", "int16", "int32", "float32")
"""Types of columns: one line each in `frontend/src/ui/packed.ts`."""


def packed(head: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> bytes:
    """The length of the head (uint32, little-endian), the head, and the columns.

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
