"""Constants of a serving engine from a few measured loads, with how sure they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.calibrate.measurements import (
    NEEDED_TEXT,
    SETTLED,
    TEXT,
    Calibrated,
    MeasurementKind,
    Prior,
    counts,
    kinds,
    model_of_cell,
    moved_constants,
    numbers,
    posterior,
    read_rows,
    row_fit,
    words,
)
from railyard.model.machine import Machine
from railyard.work.serving.closed_loop import ServingDemand, closed_loop
from railyard.work.serving.layout import KV_BITS, PRECISIONS, Deployments, ServingLayout
from railyard.work.serving.memory import sequences
from railyard.work.serving.software import (
    CONSTANTS,
    ENGINES,
    LEVEL_SPREAD,
    DeviceProfile,
    ServingSoftwareColumns,
    constants,
    profile,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.calibrate.measurements import MeasurementFile
    from railyard.catalog import Accelerator, Catalog, Model
    from railyard.measure.result.measured import ConstantFit, RowFit
    from railyard.work.serving.software import ServingSoftware

    F = NDArray[np.float64]


METRICS = ("tpot_ms", "ttft_ms")
"""What was measured: median ms a token behind the first, and mean ms to the first; either or both."""
_DEGREES = ("tp", "pp", "dp_attention", "ep")
_LARGEST = 10_000_000
COLUMNS = {
    **dict.fromkeys(("gpu", "model"), NEEDED_TEXT),
    **dict.fromkeys(("input_tokens", "output_tokens", "concurrency"), counts(_LARGEST, needed=True)),
    "tpot_ms": numbers(1e-3, 3.6e6),  # a token takes 1 us to an hour
    "ttft_ms": numbers(1e-3, 8.64e7),  # the first one takes a day at most
    **dict.fromkeys(_DEGREES, counts(_LARGEST)),
    **dict.fromkeys(("id", "notes"), TEXT),
    "software": words(ENGINES, "vllm"),
    "precision": words(PRECISIONS, "bf16"),
    "kv_bits": words({str(bits): bits for bits in KV_BITS}, 16),
    "max_sequences": counts(_LARGEST, default=1024),
}
"""Columns that a table may have."""
NEEDED = tuple(name for name, column in COLUMNS.items() if column.needed)
_NIC_BPS = 400e9


@dataclass(frozen=True)
class ServedRow:
    """One measured load of one replica.

    Attributes:
        line: In the table, from 1.
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


def rows_of(source: MeasurementFile, catalog: Catalog) -> list[ServedRow]:
    """The rows of a table.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    return read_rows(source, COLUMNS, METRICS, lambda line, values: _row(source, line, values, catalog))


def _row(source: MeasurementFile, line: int, values: Mapping[str, Any], catalog: Catalog) -> ServedRow:
    device = catalog.accelerator(values["gpu"])
    domain = device.scale_up_domain
    if device.scale_up_kind == "none" and device.server:
        domain = catalog.server(device.server).accelerators
    degrees = {name: values[name] for name in _DEGREES if name in values}
    return ServedRow(
        line,
        values["id"],
        values["software"],
        device,
        model_of_cell(source, values["model"], catalog),
        ServingLayout(precision=values["precision"], kv_bits=values["kv_bits"], **degrees),
        Machine.of_device(device, _NIC_BPS, domain),
        *(float(values[name]) for name in ("input_tokens", "output_tokens", "concurrency", "max_sequences")),
        *(values.get(name, 0.0) / 1e3 for name in METRICS),
    )


SPREAD = 0.03
"""What one user's measurements of loads leave: nightly runs of one recipe differ by 2 to 4 %."""
# Of drafts, of pools apart and of the closed form alone, a closed loop of one replica says nothing.
_SILENT = ("acceptance", "split_wave_share", "skew")


def calibrate(source: MeasurementFile, catalog: Catalog) -> Calibrated:
    """Constants of each engine and device of a table's rows, from these rows alone.

    Raises:
        InputError: The table is wrong.
    """
    rows = rows_of(source, catalog)
    moved: list[ConstantFit] = []
    judged: list[RowFit] = []
    profiles = {}
    for engine, name in dict.fromkeys((row.software, row.device.name) for row in rows):
        those = [row for row in rows if (row.software, row.device.name) == (engine, name)]
        found = fitted(loop_of(those), profile(engine, those[0].device))
        kept = [one.model_copy(update={"of": f"{engine}.{name}"}) for one in found.constants if one.settled >= SETTLED]
        moved += kept
        judged += _judged(those, found)
        values = {one.name: one.value for one in kept}
        text = f"{len(those)} rows of {source.path.name}"
        profiles[engine, name] = DeviceProfile(engine, name, text, values)
    judged.sort(key=lambda row: (row.line, row.name))
    return Calibrated(
        kind="serving",
        unit="s",
        constants=tuple(moved),
        rows=tuple(judged),
        written=written(profiles),
        use="`profiles: FILE` in a scenario's serving section",
        skipped=(),
    )


@dataclass(frozen=True)
class Loop:
    """Closed loops of replicas, and what was measured of them.

    Attributes:
        measured_s: [2, row], seconds a token and to the first one; 0 where not measured.
        queue: [2, row], by what the closed form is to be multiplied where an engine's schedule is known better; 1 else.
    """

    replicas: Deployments
    demand: ServingDemand
    measured_s: F
    queue: F

    def seconds(self, known: ServingSoftwareColumns) -> F:
        """[2, row], seconds a token and to the first one, by the closed form."""
        found = closed_loop(self.replicas, known, self.demand)
        both: F = np.stack([found.tpot_s, found.ttft_s]) * self.queue
        return both


def loop_of(rows: Sequence[ServedRow]) -> Loop:
    """Rows as columns."""
    replicas = Deployments.of(*((row.model, row.layout, row.machine) for row in rows))
    prompt, output, users, most = (
        np.array([getattr(row, name) for row in rows]) for name in ("prompt", "output", "users", "most")
    )
    room = sequences(replicas, prompt + output / 2.0, most * replicas.layout.dp)
    demand = ServingDemand(users, prompt, output, room)
    measured = np.array([[row.tpot_s for row in rows], [row.ttft_s for row in rows]])
    return Loop(replicas, demand, measured, np.ones_like(measured))


@dataclass(frozen=True)
class FittedLoop:
    """Constants of one engine on one device.

    Attributes:
        seconds: [3, 2, row]: as shipped, with these constants, and each row without itself.
    """

    constants: tuple[ConstantFit, ...]
    seconds: F


def fitted(loop: Loop, shipped: ServingSoftware) -> FittedLoop:
    """The constants that measured loops leave most likely."""
    names = tuple(name for name in CONSTANTS if name not in _SILENT)
    before = np.array([getattr(shipped, name) for name in names])
    prior = prior_of(names, before)
    asked = np.flatnonzero(loop.measured_s.ravel() > 0)
    at = posterior(_misses(loop, shipped, names, asked), prior, SPREAD)
    moved = np.exp(at.at)
    shape = loop.measured_s.shape
    left_out = np.full(loop.measured_s.size, np.nan)
    left_out[asked] = loop.measured_s.ravel()[asked] * np.exp(at.left_out)
    seconds = [loop.seconds(_with(loop, shipped, names, each)) for each in (before, moved)]
    found = moved_constants(names, names, before, at, digits=4)
    return FittedLoop(tuple(found), np.stack([*seconds, left_out.reshape(shape)]))


def prior_of(names: Sequence[str], before: F) -> Prior:
    """What is known of constants before a user's rows: what ships, as sure as an engine on an architecture is."""
    known = [constants()[name] for name in names]
    at = np.log(before)
    return Prior(
        at,
        np.array([max(one.spread, LEVEL_SPREAD) for one in known]),
        np.minimum(np.log([one.low for one in known]), at),
        np.maximum(np.log([one.high for one in known]), at),
    )


def _misses(loop: Loop, shipped: ServingSoftware, names: Sequence[str], asked: NDArray[np.int64]) -> Callable[[F], F]:
    measured = loop.measured_s.ravel()[asked]

    def misses(logs: F) -> F:
        found = loop.seconds(_with(loop, shipped, names, np.exp(logs))).ravel()[asked]
        return np.log(found / measured)

    return misses


def _with(loop: Loop, shipped: ServingSoftware, names: Sequence[str], values: F) -> ServingSoftwareColumns:
    changed: dict[str, Any] = dict(zip(names, values.tolist(), strict=True))
    return ServingSoftwareColumns([replace(shipped, **changed)] * loop.measured_s.shape[1])


def _judged(rows: Sequence[ServedRow], found: FittedLoop) -> list[RowFit]:
    return [
        row_fit(row.line, f"{row.name} {name}", [measured, *found.seconds[:, metric, number].tolist()])
        for number, row in enumerate(rows)
        for metric, (name, measured) in enumerate((("TPOT", row.tpot_s), ("TTFT", row.ttft_s)))
        if measured
    ]


kinds.add(
    "serving",
    MeasurementKind(
        name="serving",
        summary="Serving runs in a closed loop, one row per load: what served on what, and what a token took.",
        columns=(*NEEDED, " or ".join(METRICS)),
        recognizes=lambda source: source.has(NEEDED, METRICS),
        calibrate=calibrate,
        key="workload.serving.profiles",
        work="serving",
    ),
)
