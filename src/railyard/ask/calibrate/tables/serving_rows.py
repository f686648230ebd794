"""A user's own table of serving runs in a closed loop, read strictly: a wrong cell names its line and column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.calibrate.tables.cells import read_rows
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema.bounds import limits
from railyard.model.machine import Machine
from railyard.work.serving.layout import KV_BITS, PRECISIONS, ServingLayout
from railyard.work.serving.software import ENGINES

if TYPE_CHECKING:
    from railyard.ask.calibrate.tables.kind import Source
    from railyard.catalog import Accelerator, Catalog, Model

NEEDED = ("gpu", "model", "input_tokens", "output_tokens", "concurrency")
"""Columns without which a row says nothing."""
METRICS = ("tpot_ms", "ttft_ms")
"""What was measured: median ms a token behind the first, and mean ms to the first; either or both."""
_DEGREES = ("tp", "pp", "dp_attention", "ep")
_WORDS = ("id", "software", "precision", "kv_bits", "max_sequences", "notes")
COLUMNS = (*NEEDED, *METRICS, *_DEGREES, *_WORDS)
"""All columns that a table may have."""
RANGES = {"tpot_ms": limits(1e-3, 3.6e6), "ttft_ms": limits(1e-3, 8.64e7)}
"""Beyond these nothing was ever measured: a token takes 1 us to an hour, the first one at most a day."""
_ANY = limits(0.0, 1e12)
_LARGEST = 10_000_000
_MOST = 1024
_NIC_BPS = 400e9


@dataclass(frozen=True)
class ServedRow:
    """One measured load of one replica.

    Attributes:
        line: In the table, from 1.
        name: Its id, or its line.
        software: Engine.
        device, model, layout, machine: What served on what.
        prompt, output: Mean tokens of a request.
        users: Requests in the system at any time.
        most: Sequences that the engine runs at once.
        tpot_s, ttft_s: Measured, 0 where not.
    """

    line: int
    name: str
    software: str
    device: Accelerator
    model: Model
    layout: ServingLayout
    machine: Machine
    prompt: float
    output: float
    users: float
    most: float
    tpot_s: float
    ttft_s: float


def rows_of(source: Source, catalog: Catalog) -> list[ServedRow]:
    """The rows of a table.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    return read_rows(source, COLUMNS, lambda line, cells: _Cells(line, cells).row(catalog))


class _Cells:
    """Cells of one line, and what they mean."""

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.line, self.cells = line, cells

    def row(self, catalog: Catalog) -> ServedRow:
        for name in NEEDED:
            if name not in self.cells:
                raise InputError("the cell is empty", key=name)
        if not any(name in self.cells for name in METRICS):
            raise InputError(f"one of {', '.join(METRICS)} must be filled", key=METRICS[0])
        device = catalog.accelerator(self.cells["gpu"])
        domain = device.scale_up_domain
        if device.scale_up_kind == "none" and device.server:
            domain = catalog.server(device.server).accelerators
        return ServedRow(
            self.line,
            self.cells.get("id", f"line {self.line}"),
            self._choice("software", ENGINES, "vllm"),
            device,
            catalog.model(self.cells["model"]),
            self._layout(),
            Machine.of_device(device, _NIC_BPS, domain),
            float(self._count("input_tokens")),
            float(self._count("output_tokens")),
            float(self._count("concurrency")),
            float(self._count("max_sequences")) if "max_sequences" in self.cells else float(_MOST),
            *(self._number(name) / 1e3 if name in self.cells else 0.0 for name in METRICS),
        )

    def _layout(self) -> ServingLayout:
        degrees = {name: self._count(name) for name in _DEGREES if name in self.cells}
        precision = self._choice("precision", PRECISIONS, "bf16")
        bits = int(self._choice("kv_bits", tuple(map(str, KV_BITS)), "16"))
        return ServingLayout(precision=precision, kv_bits=bits, **degrees)

    def _count(self, name: str) -> int:
        value = self._number(name)
        if value != int(value) or not 1 <= value <= _LARGEST:
            raise InputError(
                "expected a whole number",
                key=name,
                found=self.cells[name],
                allowed=f"an integer from 1 to {_LARGEST:,}",
            )
        return int(value)

    def _number(self, name: str) -> float:
        try:
            value = float(self.cells[name])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise InputError("expected a number above 0", key=name, found=self.cells[name])
        try:
            RANGES.get(name, _ANY).check(value)
        except InputError as error:
            raise InputError(
                error.problems[0].message, key=name, found=self.cells[name], allowed=error.problems[0].allowed
            ) from None
        return value

    def _choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self.cells.get(name, default).lower()
        if text not in choices:
            raise InputError(
                f"expected one of {', '.join(choices)}",
                key=name,
                found=text,
                allowed=", ".join(choices),
                hint=did_you_mean(text, choices),
            )
        return text
