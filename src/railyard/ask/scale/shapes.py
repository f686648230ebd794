"""Shapes that a trace recorded next to calls on the host, which a second pass over its file reads.

Matrix products say the shape of the model. Calls of NCCL say kinds and sizes of communications in traces of PyTorch
before 2.4, whose kernels do not.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from railyard.ask.observe.gather import EventFile
from railyard.ask.observe.kernels import kind_of
from railyard.ask.observe.reader import sources
from railyard.ask.observe.readers.kineto import TYPE_BYTES, whole_number
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.ask.observe.kernels import Kernels
    from railyard.ask.observe.reader import Piece

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_scaled_mm")
_GROUPED = re.compile(r"(?:^aten::_(?:scaled_)?grouped_mm$|^_GroupedLinear$|^GroupedGemm$)")
"""Grouped products of PyTorch, of Transformer Engine (an operand an expert), and of the package `grouped_gemm`."""
_WANTED = re.compile(
    rb'"(?:_GroupedLinear|GroupedGemm|aten::(?:mm|addmm|bmm|_grouped_mm|_scaled_mm|_scaled_grouped_mm|_scaled_dot_product_\w+)|nccl:\w+|\[memory\])"|"ProfilerStep#'
)
_ATTENTION = "aten::_scaled_dot_product_"
_GPU = 1
"""`Device Type` of an accelerator's memory (c10::DeviceType)."""
_SHOWN = 24


@dataclass
class Shapes:
    """What a trace recorded.

    Attributes:
        products: How often a step calls each matrix product, by rows, depth and columns; of a batch each one counts.
        grouped: How often a step calls each product over the experts of a rank, by rows, depth, columns, experts.
        attention: How often each pair of batch and sequence length is attended to.
        calls: Start (us), kind and bytes of each call of NCCL; 0 bytes where its size does not follow from its input.
        device: The accelerator as its driver calls it; empty where the trace does not say.
        device_bytes: Memory of the accelerator, bytes.
        devices: Accelerators that the process sees on its host.
        reserved_bytes: The most memory that PyTorch reserved; 0: not recorded.
    """

    products: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    grouped: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    attention: Counter[tuple[int, int]] = field(default_factory=Counter)
    calls: list[tuple[float, str, int]] = field(default_factory=list)
    device: str = ""
    device_bytes: int = 0
    devices: int = 0
    reserved_bytes: int = 0

    def in_words(self) -> tuple[str, ...]:
        """The most frequent matrix products."""
        rows = sorted(self.products.items(), key=lambda one: (-one[1], one[0]))
        words = [f"{m} x {k} x {n}, {times} times" for (m, k, n), times in rows[:_SHOWN]]
        more = sorted(self.grouped.items(), key=lambda one: (-one[1], one[0]))
        return (*words, *(f"{m} x {k} x {n} of {experts} experts, {times} times"
                          for (m, k, n, experts), times in more[:_SHOWN]))  # fmt: skip


def shapes_of(path: Path) -> dict[str, Shapes]:
    """Shapes by the name of the source; Chakra traces have none."""
    found: dict[str, Shapes] = {}
    for source in sources(path):
        shapes, marks, file = Shapes(), set(), EventFile(source, _WANTED)
        try:
            for event in file.events():
                name = str(event.get("name", ""))
                if event.get("cat") == "user_annotation" and name.startswith("ProfilerStep#"):
                    marks.add(name)
                else:
                    _take(shapes, event, name)
        except InputError:
            continue
        each = max(len(marks), 1)
        shapes.products = Counter({sizes: -(-times // each) for sizes, times in shapes.products.items()})
        shapes.grouped = Counter({sizes: -(-times // each) for sizes, times in shapes.grouped.items()})
        _device(shapes, file.about.get("deviceProperties"))
        found[source.name] = shapes
    return found


def _take(shapes: Shapes, event: dict[str, Any], name: str) -> None:
    """Notes what an event says of shapes, memory or calls of NCCL."""
    args = event.get("args")
    dims = args.get("Input Dims") if isinstance(args, dict) else None
    if event.get("cat") == "user_annotation" and name.startswith("nccl:"):
        shapes.calls.append(_call(event, name, dims))
    elif name == "[memory]" and isinstance(args, dict) and args.get("Device Type") == _GPU:
        shapes.reserved_bytes = max(shapes.reserved_bytes, whole_number(args.get("Total Reserved"), 0))
    elif name.startswith(_ATTENTION) and _is_shape(dims) and len(dims[0]) == 4:
        shapes.attention[dims[0][0], dims[0][2]] += 1
    elif _GROUPED.search(name) and (experts := _grouped(dims)) is not None:
        shapes.grouped[experts] += 1
    elif name in _PRODUCTS and (sizes := _product(dims)):
        shapes.products[sizes[1:]] += sizes[0]


def _device(shapes: Shapes, listed: Any) -> None:
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if found:
        shapes.device, shapes.devices = str(found[0].get("name", "")), len(found)
        shapes.device_bytes = whole_number(found[0].get("totalGlobalMem"), 0)


def _call(event: dict[str, Any], name: str, dims: Any) -> tuple[float, str, int]:
    kind, types = kind_of(name), event.get("args", {}).get("Input type")
    start = event.get("ts")
    size = 0
    if kind != "all_gather" and _is_shape(dims) and isinstance(types, list) and types:
        size = prod(dims[0]) * TYPE_BYTES.get(str(types[0]).lower(), 0)
    return float(start) if isinstance(start, int | float) else 0.0, kind, size


def _is_shape(dims: Any) -> TypeGuard[list[Any]]:
    return isinstance(dims, list) and bool(dims) and isinstance(dims[0], list) and all(
        isinstance(size, int) for size in dims[0]
    )  # fmt: skip


def _product(listed: Any) -> tuple[int, int, int, int] | None:
    """Batch, rows, depth and columns; None where no shapes were recorded."""
    dims = [one for one in listed if isinstance(one, list) and len(one) in (2, 3)] if isinstance(listed, list) else []
    if len(dims) < 2 or not all(isinstance(size, int) for one in dims[-2:] for size in one):
        return None
    left, right = dims[-2:]
    return (left[0] if len(left) == 3 else 1, left[-2], left[-1], right[-1]) if left[-1] == right[-2] else None


def _grouped(listed: Any) -> tuple[int, int, int, int] | None:
    """Rows of all experts, depth, columns and experts of a rank; None where the operands are no such product."""
    dims = [one for one in listed if _is_sizes(one)] if isinstance(listed, list) else []
    if not dims or len(dims[0]) != 2:
        return None
    rows, depth = dims[0]
    for one in dims[1:]:
        if len(one) == 3 and depth in one[1:]:
            return rows, depth, one[2] if one[1] == depth else one[1], one[0]
    weights = Counter(tuple(one) for one in dims[1:] if len(one) == 2 and depth in one)
    if not weights:
        return None
    (first, second), experts = weights.most_common(1)[0]
    return rows, depth, first if second == depth else second, experts


def _is_sizes(one: Any) -> TypeGuard[list[int]]:
    return isinstance(one, list) and all(isinstance(size, int) for size in one)


def with_sizes(piece: Piece, shapes: Shapes | None) -> Piece:
    """The piece with kinds and sizes of its communications, where only the host's calls say them.

    They are matched in the order of launches, if there are as many calls as kernels.
    """
    kernels = piece.kernels
    if kernels is None or shapes is None:
        return piece
    rows = np.flatnonzero(kernels.communicates)
    if not len(rows) or len(rows) != len(shapes.calls) or kernels.size_bytes[rows].any():
        return piece
    rows = rows[np.argsort(kernels.launch[rows], kind="stable")]
    calls = sorted(shapes.calls)
    words = list(kernels.words)
    words += [kind for kind in dict.fromkeys(kind for _, kind, _ in calls) if kind not in words]
    kinds, sizes = kernels.kind.copy(), kernels.size_bytes.copy()
    kinds[rows] = [words.index(kind) for _, kind, _ in calls]
    sizes[rows] = [size for _, _, size in calls]
    named: Kernels = replace(kernels, words=tuple(words), kind=kinds, size_bytes=sizes)
    return replace(piece, kernels=named)
