"""What a packet run found: one object of figures, and a row a flow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.files import write_text
from railyard.kit.quantities import percentile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.engine.packet import Traffic
    from railyard.graph import Record
    from railyard.measure.network import Probed

_PS_PER_US = 10**6
_KINDS = ("new", "retransmitted", "trimmed", "dropped", "marked")


def _not_probed() -> Probed:
    return {}


@dataclass(frozen=True, eq=False)
class Report:
    """Figures of a run.

    Attributes:
        flows: The traffic; its local work is no flow and is left out of all figures.
        never: Lines of the flows that nothing could start.
        record: What happened, a row of the traffic each.
        link_name: Names a link.
        cpu_s: Processor time of reading, building and running.
        peak_rss_mb: Most memory of the process, in 2^20 bytes.
        left_out: What the model and the reading of the files left out.
        probed: What was sampled: `queues`, `flows`, `storm`, `reorder` as the report draws them.
    """

    flows: Traffic
    never: tuple[int, ...]
    record: Record
    link_name: Callable[[int], str]
    cpu_s: float
    peak_rss_mb: float
    left_out: tuple[str, ...]
    probed: Probed = field(default_factory=_not_probed)

    @property
    def packets(self) -> dict[str, int]:
        """How many were new, sent again, trimmed, dropped, marked."""
        return {kind: self.record.meta["packets"][kind] for kind in _KINDS}

    @property
    def sent(self) -> Record:
        """The flows alone, without the work on hosts between them."""
        rows = np.flatnonzero(self.flows.travels)
        place = np.full(len(self.record) + 1, -1, np.int32)
        place[rows] = np.arange(len(rows))
        taken = self.record.take(rows)
        return replace(taken, optional={**taken.optional, "blocker": place[self.record.column("blocker")[rows]]})

    @property
    def total(self) -> int:
        """Flows of the file, with those that nothing could start."""
        return int(self.flows.travels.sum()) + len(self.never)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """bool[n], rows that are flows and have finished."""
        return np.asarray(self.flows.travels & self.record.ended)

    @property
    def fct_ps(self) -> NDArray[np.int64]:
        """int64[finished], from a flow's start to its last acknowledgement, in the order of the file."""
        return np.asarray(self.record.duration_ps[self.ended])

    @property
    def last_finish_us(self) -> float | None:
        """When the last flow finished, from the start of the run; None when none did."""
        return float(self.record.end_ps[self.ended].max()) / _PS_PER_US if self.ended.any() else None

    @property
    def first_finish_us(self) -> float | None:
        """When the first flow finished; None when none did."""
        return float(self.record.end_ps[self.ended].min()) / _PS_PER_US if self.ended.any() else None

    def fct_us(self) -> dict[str, float | None]:
        """Least, mean, median, 99th percentile (nearest rank) and greatest flow completion time."""
        times = np.sort(self.fct_ps)
        if not len(times):
            return dict.fromkeys(("min", "mean", "p50", "p99", "max"))
        middle = {"p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}
        found = {"min": times[0], "mean": times.mean(), **middle, "max": times[-1]}
        return {name: float(value) / _PS_PER_US for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The object that `railyard packet --json` prints."""
        return {
            "flows": self.total,
            "finished": int(self.ended.sum()),
            "fct_us": self.fct_us(),
            "last_finish_us": self.last_finish_us,
            "packets": self.packets,
            "events": self.record.meta["events"],
            "cpu_s": round(self.cpu_s, 6),
            "peak_rss_mb": round(self.peak_rss_mb, 3),
            "digest": self.record.digest(),
        }

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def write_flows(self, path: Path) -> None:
        """Writes a row a flow as CSV, in the order of the file; times are empty where a flow did not finish.

        Raises:
            InputError: The file cannot be written.
        """
        heading = "flow,line,source,target,size_bytes,start_us,finish_us,fct_us,receiver_finish_us"
        rows = [
            self._row(number, row) for number, row in enumerate(np.flatnonzero(self.flows.travels).tolist(), start=1)
        ]
        try:
            write_text(path, "\n".join([heading, *rows, ""]))
        except InputError as error:
            raise error.located(key="--fct") from None

    def _row(self, number: int, row: int) -> str:
        flows, line = self.flows, self.record.column("line")[row]
        cells = [number, line, flows.source[row], flows.target[row], flows.size_bytes[row]]
        record = self.record
        start, finish, received = record.start_ps[row], record.end_ps[row], record.column("receiver_finish_ps")[row]
        times = [start, finish, finish - start if finish >= 0 else -1, received]
        return ",".join([*map(str, cells), *(f"{time / _PS_PER_US:.6f}" if time >= 0 else "" for time in times)])
