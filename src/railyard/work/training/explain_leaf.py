"""The time tree of a step, which sums exactly at every level.

Amounts are integer picoseconds summed over ranks, so no rounding occurs between a node and its children:

    amount of the root = step time in ps x ranks;  amount of a node = sum of the amounts of its children

Seconds are an amount divided by the ranks: the mean over ranks. Every leaf names its formula and constants.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import RailyardError
from railyard.work.training import profiles
from railyard.work.training.explain_work import CAST, CORE, GAP, GEMM, GROUPED, LIBRARY, PASS
from railyard.work.training.pace import own_count, pace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.work.training.explain_work import TracedWork
    from railyard.work.training.spec import Training


@dataclass(frozen=True)
class Constant:
    """A constant used for a leaf.

    Attributes:
        name: Name in its record, such as `gemm_fraction`.
        value: The figure with its unit.
    """

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Law:
    """The formula of a leaf.

    Attributes:
        formula: The formula in words, with the function that implements it.
    """

    formula: str
    constants: tuple[Constant, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The leaf's `by`."""
        return {"formula": self.formula, "constants": list(map(asdict, self.constants))}


@dataclass(frozen=True)
class TimeNode:
    """A part of a step.

    Attributes:
        amount_ps: Summed over ranks.
        count: Occurrences per rank and step: kernels, collectives, sends; None if nothing is counted.
        by: Formula of a leaf; None inside the tree.
        children: Its parts, the largest first.
    """

    name: str
    amount_ps: int
    count: float | None = None
    by: Law | None = None
    children: tuple[TimeNode, ...] = ()

    @staticmethod
    def of(name: str, children: Sequence[TimeNode], *, ordered: bool = True) -> TimeNode:
        """A node that is the sum of its children; children without time are dropped."""
        kept = [child for child in children if child.amount_ps]
        if ordered:
            kept.sort(key=lambda child: -child.amount_ps)
        return TimeNode(name, sum(child.amount_ps for child in kept), children=tuple(kept))

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TimeNode]]:
        """Every node with the names on its path, parents first."""
        here = (*path, self.name)
        yield here, self
        for child in self.children:
            yield from child.walk(here)

    def leaves(self) -> Iterator[TimeNode]:
        """The nodes without children."""
        return (node for _, node in self.walk() if not node.children)


@dataclass(frozen=True)
class TimeTree:
    """The time tree of one variant's step.

    Attributes:
        notes: Notes for the reader: what the engine leaves out, or differences from the stored run.
    """

    variant: str
    step_ps: int
    ranks: int
    root: TimeNode
    notes: tuple[str, ...] = field(default=())

    def check(self) -> None:
        """Checks that the tree sums up.

        Raises:
            RailyardError: A node is not the sum of its children, or the root is not the step, which is a bug.
        """
        if self.root.amount_ps != self.step_ps * self.ranks:
            raise RailyardError(f"the tree holds {self.root.amount_ps} ps, the ranks {self.step_ps * self.ranks}")
        for path, node in self.root.walk():
            if node.children and sum(child.amount_ps for child in node.children) != node.amount_ps:
                raise RailyardError(f"{' / '.join(path)} is not the sum of its parts")

    def seconds(self, node: TimeNode) -> float:
        """Mean over ranks."""
        return node.amount_ps * 1e-12 / self.ranks

    def share(self, node: TimeNode) -> float:
        """Share of the step."""
        return node.amount_ps / (self.step_ps * self.ranks)

    def find(self, *names: str) -> TimeNode | None:
        """The node at the end of a path of names below the root; None if there is none."""
        node: TimeNode | None = self.root
        for name in names:
            node = next((child for child in node.children if child.name == name), None) if node else None
        return node

    def to_json(self, *, depth: int | None = None) -> dict[str, object]:
        """`step_s`, `step_ps`, `ranks`, `tree` (`name`, `amount_ps`, `seconds`, `share`, `count`, `by`, `children`).

        Args:
            depth: Levels below the root to keep; None keeps all.
        """
        return {
            "variant": self.variant,
            "step_s": self.step_ps * 1e-12,
            "step_ps": self.step_ps,
            "ranks": self.ranks,
            "tree": self._node(self.root, depth),
            "notes": list(self.notes),
        }

    def _node(self, node: TimeNode, depth: int | None) -> dict[str, Any]:
        below = None if depth is None else depth - 1
        return {
            "name": node.name,
            "amount_ps": node.amount_ps,
            "seconds": self.seconds(node),
            "share": self.share(node),
            "count": node.count,
            "by": node.by.to_json() if node.by else None,
            "children": [self._node(child, below) for child in node.children] if depth is None or depth > 0 else [],
        }

    def rows(self) -> list[dict[str, object]]:
        """One row per node: `path`, `level`, `name`, `amount_ps`, `seconds`, `share`, `count`, `leaf`, `by`."""
        return [
            {
                "path": " / ".join(path[1:]),
                "level": len(path) - 1,
                "name": node.name,
                "amount_ps": node.amount_ps,
                "seconds": self.seconds(node),
                "share": self.share(node),
                "count": node.count,
                "leaf": not node.children,
                "by": node.by.formula if node.by else "",
            }
            for path, node in self.root.walk()
        ]


def shared_out(amount_ps: int, weights: Sequence[float]) -> list[int]:
    """Splits an integer amount in proportion to weights, exactly (largest remainder).

    Args:
        amount_ps: Amount to split, of any sign.
        weights: Non-negative; if all are zero, the first part gets everything.
    """
    total = sum(weights)
    if not total > 0:
        return [amount_ps, *[0] * (len(weights) - 1)]
    exact = [amount_ps * (weight / total) for weight in weights]
    floor = [int(part) for part in exact]
    left = amount_ps - sum(floor)
    step = 1 if left >= 0 else -1
    order = sorted(range(len(weights)), key=lambda index: -step * (exact[index] - floor[index]))
    every, rest = divmod(abs(left), len(weights))
    for place, index in enumerate(order):
        floor[index] += step * (every + (1 if place < rest else 0))
    return floor


_CAUSES = {
    "bandwidth": "time with its links to itself, less its latency, of what no computation hides",
    "latency": "steps of the algorithm times latency of a step, and the launch",
    "contention": "longer than alone: links shared with other flows, or hashed onto one another",
}


@dataclass(frozen=True)
class Laws:
    """Laws of one job on one cluster."""

    training: Training
    cluster: Cluster
    engine: str

    @property
    def ranks(self) -> int:
        """Ranks of the job."""
        return self.training.layout.ranks

    def _soft(self, *names: str) -> tuple[Constant, ...]:
        software = self.training.software
        return tuple(Constant(name, f"{getattr(software, name):g}", profiles.origin(software, name)) for name in names)

    def _device(self, *names: str) -> tuple[Constant, ...]:
        accelerator = self.cluster.accelerator
        found = []
        for name in names:
            origin = accelerator.provenance.get(name)
            source = f"{origin.source} ({origin.confidence})" if origin else "catalogue"
            found.append(Constant(name, f"{getattr(accelerator, name):g}", f"{accelerator.name}: {source}"))
        return tuple(found)

    def _peak(self, precision: str = "bf16") -> Constant:
        accelerator = self.cluster.accelerator
        origin = accelerator.provenance.get("flops")
        name = precision if precision in accelerator.flops else "fp16"
        source = origin.source if origin else "catalogue"
        return Constant(f"flops {name}", f"{accelerator.flops.get(name, 0.0):.4g} FLOP/s, dense", source)

    def work(self, one: TracedWork) -> Law:
        """Formula of an operator, its casts or its gaps, and the pace of own runs by which it is multiplied."""
        law = self._work(one)
        device = self.cluster.accelerator.name
        if not own_count(self.training, device):
            return law
        pace = Constant("pace", f"{pace_of(self.training, device)[0]:.4g}", "own runs")
        return Law(f"{law.formula}, x pace", (*law.constants, pace))

    def _work(self, one: TracedWork) -> Law:
        if one.kind == GAP:
            return Law("device gap between kernels x kernels (operators.py)", self._device("launch_ps"))
        if one.kind == CAST:
            return Law(
                "cast_bytes x elements / memory bandwidth (operators.linear)",
                (*self._soft("cast_bytes", "memory_fraction"), *self._device("memory_efficiency")),
            )
        if one.kind == PASS:
            return Law(
                "bytes read and written / memory bandwidth (operators.stream)",
                (*self._soft("memory_fraction"), *self._device("memory_efficiency")),
            )
        if one.kind == CORE:
            name = "attention_forward" if one.phase in ("forward", "recompute") else "attention_backward"
            return Law(
                "causal FLOPs / rate of the attention kernel, filled blocks (operators.attention)",
                (*self._soft(name), *self._device("attention_efficiency"), self._peak()),
            )
        return self._gemm(one)

    def _gemm(self, one: TracedWork) -> Law:
        share = {"fp8": "fp8_fraction", "fp4": "fp4_fraction"}.get(self.training.precision, "gemm_fraction")
        if one.operator in ("logits", "router"):
            share = "gemm_fraction"
        names = (share, "grouped_fraction") if one.kind == GROUPED else (share,)
        device = "gemm_efficiency" if share == "gemm_fraction" else "gemm_efficiency_8bit"
        law = f"{GEMM}: whole waves of tiles, or operands through memory (operators.gemm_s)"
        peak = self._peak("bf16" if share == "gemm_fraction" else self.training.precision)
        return Law(law, (*self._soft(*names), *self._device(device), peak))

    def host(self) -> Law:
        """Formula of waiting for launches."""
        return Law(
            "host time of launches beyond the device's time (passes.py)",
            self._soft("launch_ps", "layer_host_ps", "expert_host_ps", "collective_host_ps"),
        )

    def contention(self) -> Law:
        """Formula of the slowdown of computation by overlapping communication."""
        share = self._soft("communication_sms")
        return Law("compute units and memory bandwidth that an overlapping collective takes (contention.py)", share)

    def spread(self) -> Law:
        """Formula of computation that took another time than planned."""
        return Law("duration in the timeline less the planned one: the scenario's jitter and faults")

    def optimizer(self) -> Law:
        """Formula of the update."""
        names = self._soft("optimizer_bytes", "gradient_bytes")
        return Law(
            "bytes per parameter x parameters kept / memory bandwidth (compute.optimizer_s)",
            (*names, *self._device("memory_efficiency")),
        )

    def fixed(self) -> Law:
        """Formula of the host's part of a step."""
        return Law("host time once a step (finish.py)", self._soft("step_ps"))

    def communication(self, cause: str, tier: str, algorithms: Sequence[str]) -> Law:
        """Formula of exposed communication."""
        links, fabric = self.cluster.links, self.cluster.fabric
        constants = [Constant("algorithm", ", ".join(algorithms), "collective.choose")] if algorithms else []
        if tier in links.tiers:
            rate = float(links.rate_bps[links.of_tier(tier)].max(initial=0.0))
            constants.append(Constant("link rate", f"{rate / 1e9:g} Gb/s", f"tier {tier} of the cluster"))
        elif tier == LIBRARY:
            constants.append(Constant("rate", "protocol and channels", "collective room, NCCL's tuning tables"))
        constants.append(Constant("fabric", fabric.name, f"load balancing {fabric.load_balancing}"))
        return Law(f"{_CAUSES[cause]} (cpp/measure/decompose.cpp, engine {self.engine})", tuple(constants))

    def waiting(self, name: str) -> Law:
        """Formula of waits other than for the network."""
        layout = self.training.layout
        constants: tuple[Constant, ...] = ()
        if name == "waiting for the host":
            return self.host()
        if name == "pipeline bubble":
            words = f"{layout.schedule}, PP {layout.pp}, VP {layout.vp}, {layout.micro_batches} micro-batches"
            constants = (Constant("schedule", words, "layout"),)
        return Law("chain of blockers in the timeline (cpp/measure/decompose.cpp)", constants)

    def added(self, name: str) -> Law:
        """Formula of the parts of the mean step beyond one step's timeline."""
        checkpoint = self.training.checkpoint
        constants: tuple[Constant, ...] = ()
        if checkpoint is not None and name == "checkpoint stall":
            constants = (Constant("interval_steps", str(checkpoint.interval_steps), "scenario"),)
        return Law("(step with it - step without) x how often (scenario/simulate.py)", constants)

    def notes(self) -> tuple[str, ...]:
        """Notes for the reader."""
        notes = ["an amount is a mean over ranks; the tree adds up to the picosecond in amounts summed over ranks"]
        if self.training.software.cuda_graphs:
            notes.append("launches are recorded as CUDA graphs: they cost the host nothing")
        return tuple(notes)
