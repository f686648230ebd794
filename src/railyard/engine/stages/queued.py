"""Stages whose requests are alone with a server: tools outside, and cores of processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.catalog import Range
from railyard.economics.deployment import Use
from railyard.study.pipeline.draws import delays, uniform
from railyard.study.pipeline.fifo import starts
from railyard.study.pipeline.stage import PS, Hardware, Passed, parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.scenario.pipeline import HostStage, ToolStage
    from railyard.study.pipeline.stage import Progress
    from railyard.workload.serving.requests import Requests

_BYTES_PER_TOKEN = 4.0
"""Text of a token."""


@dataclass(frozen=True)
class Tool:
    """Something outside: it takes its time, and is not on the bill."""

    name: str
    section: ToolStage
    kind: str = "tool"
    nic_bps: float = float("inf")
    hardware: tuple[Hardware, ...] = ()

    def __post_init__(self) -> None:
        """Refuses delays that no law has."""
        delays(self.section.delay, self.section.p99, np.zeros(0))

    def sends_bytes(self, requests: Requests) -> NDArray[np.float64]:
        """What comes back from it."""
        return np.full(len(requests), float(self.section.size))

    def run(self, requests: Requests, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Passed:
        """Calls, each after its delay; where there is a limit, the others wait."""
        del progress
        seconds: NDArray[np.float64] = delays(
            self.section.delay, self.section.p99, uniform(seed, f"{self.name} delay", rows)
        )
        return _passed(requests, seconds, self.section.at_most, None)


@dataclass(frozen=True)
class Host:
    """Cores of a server's processors."""

    name: str
    section: HostStage
    nic_bps: float
    hardware: tuple[Hardware, ...]
    kind: str = "host"

    def sends_bytes(self, requests: Requests) -> NDArray[np.float64]:
        """The text of prompt and answer."""
        return np.asarray(_BYTES_PER_TOKEN * (requests.input_tokens + requests.output_tokens), np.float64)

    def run(self, requests: Requests, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Passed:
        """Requests, one a core."""
        del rows, seed, progress
        said = self.section
        tokens = said.per_input_token * requests.input_tokens + said.per_output_token * requests.output_tokens
        return _passed(requests, np.asarray(said.per_request + tokens, np.float64), said.cores, self.hardware[0])


def _passed(requests: Requests, seconds: NDArray[np.float64], servers: int | None, on: Hardware | None) -> Passed:
    service = np.rint(seconds * PS).astype(np.int64)
    begin = starts(requests.arrival_ps, service, servers)
    busy_s = float(service.sum()) / PS

    def uses(span_s: float) -> list[Use]:
        if on is None:
            return []
        device = on.cluster.accelerator
        busy = min(busy_s / span_s / (on.count * device.sm_count), 1.0) if span_s > 0 else 0.0
        idle, full = device.idle_power_w, device.power_w
        drawn = [
            getattr(idle, end) + busy * max(getattr(full, end) - getattr(idle, end), 0.0)
            for end in ("low", "typical", "high")
        ]
        return [Use(device, on.count, Range(*drawn), prompt=busy)]

    return Passed(
        end_ps=begin + service,
        parts=parts(queue=(begin - requests.arrival_ps) / PS, compute=service / PS),
        refused=np.zeros(len(requests), np.bool_),
        overloaded=False,
        uses=uses,
        replicas=lambda _span_s: [],
    )
