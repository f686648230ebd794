"""By what each leaf of the tree is computed: the formula's name, its constants, and who states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.training import profiles
from railyard.work.training.explain_leaf import Constant, Law
from railyard.work.training.explain_subjects import LIBRARY
from railyard.work.training.explain_work import CAST, CORE, GAP, GEMM, GROUPED, PASS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.work.training.explain_work import Work
    from railyard.work.training.spec import Training

_CAUSES = {
    "bandwidth": "time with its links to itself, less its latency, of what no computation hides",
    "latency": "steps of the algorithm times latency of a step, and the launch",
    "contention": "longer than alone: links shared with other flows, or hashed onto one another",
}


@dataclass(frozen=True)
class Laws:
    """Laws of one job on one cluster.

    Attributes:
        training: The job.
        cluster: On which it runs.
        engine: That found the timeline.
    """

    training: Training
    cluster: Cluster
    engine: str

    @property
    def ranks(self) -> int:
        """Of the job."""
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

    def work(self, one: Work) -> Law:
        """Of an operator, its casts or its gaps."""
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

    def _gemm(self, one: Work) -> Law:
        share = {"fp8": "fp8_fraction", "fp4": "fp4_fraction"}.get(self.training.precision, "gemm_fraction")
        if one.operator in ("logits", "router"):
            share = "gemm_fraction"
        names = (share, "grouped_fraction") if one.kind == GROUPED else (share,)
        device = "gemm_efficiency" if share == "gemm_fraction" else "gemm_efficiency_8bit"
        law = f"{GEMM}: whole waves of tiles, or operands through memory (operators.gemm_s)"
        peak = self._peak("bf16" if share == "gemm_fraction" else self.training.precision)
        return Law(law, (*self._soft(*names), *self._device(device), peak))

    def host(self) -> Law:
        """Of waiting for launches."""
        return Law(
            "host time of launches beyond the device's time (passes.py)",
            self._soft("launch_ps", "layer_host_ps", "expert_host_ps", "collective_host_ps"),
        )

    def contention(self) -> Law:
        """Of computation that communications beside it slowed."""
        share = self._soft("communication_sms")
        return Law("compute units and memory bandwidth that a collective beside it takes (contention.py)", share)

    def spread(self) -> Law:
        """Of computation that took another time than planned."""
        return Law("duration in the timeline less the planned one: the scenario's jitter and faults")

    def optimizer(self) -> Law:
        """Of the update."""
        names = self._soft("optimizer_bytes", "gradient_bytes")
        return Law(
            "bytes per parameter x parameters kept / memory bandwidth (compute.optimizer_s)",
            (*names, *self._device("memory_efficiency")),
        )

    def fixed(self) -> Law:
        """Of the host's part of a step."""
        return Law("host time once a step (finish.py)", self._soft("step_ps"))

    def communication(self, cause: str, tier: str, algorithms: Sequence[str]) -> Law:
        """Of exposed communication."""
        links, fabric = self.cluster.links, self.cluster.fabric
        constants = [Constant("algorithm", ", ".join(algorithms), "collective.choose")] if algorithms else []
        if tier in links.tiers:
            rate = float(links.rate_bps[links.of_tier(tier)].max(initial=0.0))
            constants.append(Constant("link rate", f"{rate / 1e9:g} Gb/s", f"tier {tier} of the cluster"))
        elif tier == LIBRARY:
            constants.append(Constant("rate", "protocol and channels", "collective room, NCCL's tuning tables"))
        constants.append(Constant("fabric", fabric.name, f"load balancing {fabric.load_balancing}"))
        return Law(f"{_CAUSES[cause]} (measure/charge.py, engine {self.engine})", tuple(constants))

    def waiting(self, name: str) -> Law:
        """Of waits that are not for the network."""
        layout = self.training.layout
        constants: tuple[Constant, ...] = ()
        if name == "waiting for the host":
            return self.host()
        if name == "pipeline bubble":
            words = f"{layout.schedule}, PP {layout.pp}, VP {layout.vp}, {layout.micro_batches} micro-batches"
            constants = (Constant("schedule", words, "layout"),)
        return Law("chain of blockers in the timeline (measure/walk.py)", constants)

    def added(self, name: str) -> Law:
        """Of what the mean step has beyond one step's timeline."""
        checkpoint = self.training.checkpoint
        constants: tuple[Constant, ...] = ()
        if checkpoint is not None and name == "checkpoint stall":
            constants = (Constant("interval_steps", str(checkpoint.interval_steps), "scenario"),)
        return Law("(step with it - step without) x how often (scenario/simulate.py)", constants)

    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        notes = ["an amount is a mean over ranks; the tree adds up to the picosecond in amounts summed over ranks"]
        if self.training.software.cuda_graphs:
            notes.append("launches are recorded as CUDA graphs: they cost the host nothing")
        return tuple(notes)
