"""What a design is to the economics room: its bill, and the figures that follow of a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.outcome import DesignOutcome, StepTime
from railyard.measure.cost.assumptions import carbon
from railyard.measure.cost.capital import NETWORK_COMPONENTS
from railyard.measure.cost.cost import JobFacts, usd_per_h
from railyard.measure.cost.evaluate import cost_model
from railyard.measure.job import Checkpointing
from railyard.model import architecture
from railyard.work.training.step_runs import lost_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Range
    from railyard.catalog.grids import PowerGrid
    from railyard.cluster import Cluster
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Capex, CostPart
    from railyard.measure.cost.power import Power
    from railyard.measure.serving.latencies import Served
    from railyard.measure.serving.objective import Goodput, Objective
    from railyard.work.training.spec import Training

    F = NDArray[np.float64]


HARDWARE = ("accelerators_usd", "servers_usd", "network_usd", "storage_usd")
"""Inputs that make up the capital."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DesignPrice(ABC):
    """What designs of every kind of work have in common: capital, power, dollars an hour.

    Attributes:
        inputs: What the price of an hour and of a token follows from, each a range.
        tokens_per_s: Goodput tokens a second.
        rack_w: Nameplate power of a rack.
        site: Where it stands; empty where there is one site.
        grid: Whose electricity it draws; None: not said.
    """

    capex: Capex
    power: Power
    inputs: Mapping[str, Range]
    tokens_per_s: float
    rack_w: float
    delivery_s: float
    site: str
    grid: PowerGrid | None

    @abstractmethod
    def under(self, inputs: Mapping[str, F], slower: F, goodputs: Goodputs) -> dict[str, F]:
        """Objectives where what the price follows from is as given and everything takes so many times as long.

        Args:
            inputs: float64[n] by name.
            slower: float64[n].
            goodputs: Of jobs that fail so often.
        """

    @cached_property
    def typical(self) -> dict[str, float]:
        """Every input in the middle of its range."""
        return {name: band.typical for name, band in self.inputs.items()}

    @property
    def hourly(self) -> dict[str, float]:
        """Dollars an hour by part."""
        return usd_per_h(self.typical)

    @property
    def usd_per_h(self) -> float:
        """Dollars an hour."""
        return math.fsum(self.hourly.values())

    @property
    def cpmt(self) -> float:
        """USD per million goodput tokens."""
        return self.usd_per_h / (self.tokens_per_s * 3600) * 1e6

    @property
    def tokens_per_watt(self) -> float:
        """Goodput tokens a joule."""
        return self.tokens_per_s / self.power.total_w.typical

    @property
    def network_capex_share(self) -> float:
        """The network's share of the capital."""
        usd = sum(self.capex.line(name).typical for name in NETWORK_COMPONENTS)
        return usd / max(self.capex.total_usd.typical, 1e-300)

    @property
    def racks(self) -> float:
        """Racks by nameplate power."""
        return float(math.ceil(self.power.provisioned_w.typical / self.rack_w - 1e-9))

    @property
    def carbon(self) -> float | None:
        """Grams of CO2 equivalent of a million goodput tokens; None where no grid is known."""
        if self.grid is None:
            return None
        joules = self.power.total_w.scaled(1.0 / self.tokens_per_s)
        return carbon(self.grid, self.power.total_w, joules).grams_per_million.typical

    def dollars(self, inputs: Mapping[str, F], tokens_per_s: F) -> dict[str, F]:
        """Objectives of money and power for inputs and goodput tokens a second, each float64[n]."""
        hourly = np.sum(list(usd_per_h(inputs).values()), axis=0)
        drawn = inputs["it_w"] * inputs["pue"]
        hardware_usd = np.sum([inputs[name] for name in HARDWARE], axis=0)
        bought = hardware_usd * (1 + inputs["installation"])
        grams = {} if self.grid is None else {"carbon": drawn / tokens_per_s / 3.6 * self.grid.g_per_kwh}
        return {
            **grams,
            "cpmt": hourly / (tokens_per_s * 3600) * 1e6,
            "tokens_per_s": tokens_per_s,
            "tokens_per_watt": tokens_per_s / drawn,
            "capex": bought,
            "power": drawn,
            "usd_per_h": hourly,
            "network_capex_share": inputs["network_usd"] / bought,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingPrice(DesignPrice):
    """A design with a step: money, power, time.

    Attributes:
        busy: Share of the step in which accelerators compute.
        mfu: Model FLOP/s over the dense 16-bit peak.
    """

    job: JobFacts
    step_s: float
    busy: float
    mfu: float

    @property
    def jct_s(self) -> float:
        """Seconds until the job is done."""
        return self.job.tokens / self.tokens_per_s

    @property
    def done_s(self) -> float:
        """Seconds from the order until the job is done."""
        return self.delivery_s + self.jct_s

    def under(self, inputs: Mapping[str, F], slower: F, goodputs: Goodputs) -> dict[str, F]:
        """Objectives for other inputs and steps."""
        step, job = self.step_s * slower, self.job
        running = job.tokens_per_step / step * goodputs.of(job, inputs["mtbf_h"], inputs["restart_s"])
        jct = job.tokens / running + job.lost_s
        tokens_per_s = job.tokens / jct
        return {
            **self.dollars(inputs, tokens_per_s),
            "jct": jct,
            "done": self.delivery_s + jct,
            "step": step,
            "mfu": self.mfu / slower,
        }


class Goodputs:
    """Goodput of jobs by how often they fail: the same for all designs with as many accelerators and checkpoints."""

    def __init__(self) -> None:
        self._known: dict[object, F] = {}

    def of(self, job: JobFacts, mtbf_h: F, restart_s: F) -> F:
        """Share of the time that counts, float64[n]; what given faults take once is left out."""
        job = replace(job, lost_s=0.0)
        key = (job.accelerators, job.checkpointing, hash(mtbf_h.tobytes()), hash(restart_s.tobytes()))
        if key not in self._known:
            pairs = zip(mtbf_h.tolist(), restart_s.tolist(), strict=True)
            self._known[key] = np.array([job.time(mtbf_h=mtbf, restart_s=restart).goodput for mtbf, restart in pairs])
        return self._known[key]


def priced(
    cluster: Cluster,
    training: Training,
    outcome: DesignOutcome,
    parts: Sequence[CostPart],
    assumptions: Assumptions,
    *,
    delivery_s: float = 0.0,
) -> TrainingPrice:
    """A design with what an engine found of it.

    Raises:
        InputError: The job would never end.
    """
    section = training.checkpoint
    stall_s, write_s, read_s = outcome.checkpoint_s
    saves = Checkpointing()
    if section is not None:
        lost_s = section.memory_interval_steps * outcome.step_s if section.memory_copies else None
        saves = Checkpointing(stall_s, write_s, section.interval_steps * outcome.step_s, read_s, lost_s)
    facts = JobFacts(
        tokens=float(training.tokens or training.step_tokens),
        tokens_per_step=float(training.step_tokens),
        step_s=outcome.step_s,
        accelerators=cluster.ranks,
        checkpointing=saves,
        lost_s=lost_in(training, outcome.step_s, outcome.lost_s, assumptions.mtbf_h.typical / cluster.ranks),
    )
    spent = StepTime(outcome.rows, outcome.step_s, cluster.ranks)
    capex, power, model = cost_model(
        decomposition=spent, accelerator=cluster.accelerator, parts=parts, job=facts, assumptions=assumptions
    )
    useful = training.step_tokens * architecture.model_flops_per_token(
        training.model, training.seq_len, causal=training.causal
    )
    peak = cluster.accelerator.flops.get("bf16", 0.0) * cluster.ranks * outcome.step_s
    return TrainingPrice(
        capex=capex,
        power=power,
        inputs=model.inputs,
        tokens_per_s=model.tokens_per_h({name: band.typical for name, band in model.inputs.items()}) / 3600,
        rack_w=cluster.catalog.price("rack-power").range.typical,
        delivery_s=delivery_s,
        site=assumptions.site,
        grid=assumptions.grid,
        job=facts,
        step_s=outcome.step_s,
        busy=outcome.share("compute"),
        mfu=useful / peak if peak else 0.0,
    )


SLOWER: tuple[float, ...] = tuple(np.exp(np.linspace(-0.6, 0.6, 25)).tolist())
"""Times that everything may take as long, at which goodput is kept: beyond both ends it is taken as there."""


def kept_of(found: Served, objective: Objective, good: Goodput) -> tuple[float, ...]:
    """Goodput tokens a second where all latencies are as many times as long as `SLOWER` says.

    Queues are stretched as everything else is: what a slower replica adds to them beyond that is left out.
    """
    tokens = (found.input_tokens + found.output_tokens).astype(np.float64)
    limits = ((objective.ttft_s, found.ttft_s), (objective.tpot_s, found.tpot_s), (objective.e2e_s, found.e2e_s))
    most = np.full(len(found), np.inf)
    for limit, value in limits:
        if limit is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                most = np.fmin(most, limit / value)
    most = np.where(good.ended, most, -np.inf)
    return tuple(float(tokens[most >= slower].sum() / good.window.seconds) for slower in SLOWER)


@dataclass(frozen=True, eq=False, kw_only=True)
class ServicePrice(DesignPrice):
    """A service with what came of its requests; its goodput tokens are prompts and answers of requests in time.

    Attributes:
        attainment: Share of the requests in time.
        goodput_per_s: Requests in time a second.
        latencies: By name and percentile, s.
        kept: Goodput tokens a second where everything takes as long as `SLOWER` says.
    """

    attainment: float
    goodput_per_s: float
    latencies: Mapping[tuple[str, str], float | None]
    kept: tuple[float, ...]

    def under(self, inputs: Mapping[str, F], slower: F, goodputs: Goodputs) -> dict[str, F]:
        """Objectives of money for other inputs, and where everything takes so many times as long."""
        del goodputs  # replicas that fail are no part of it
        now = np.interp(0.0, np.log(SLOWER), self.kept)
        share = np.interp(np.log(slower), np.log(SLOWER), self.kept) / now
        # Of draws in which nothing is in time a token costs what it costs where one in a thousand is.
        tokens_per_s = self.tokens_per_s * np.maximum(share, 1e-3)
        return self.dollars(inputs, tokens_per_s)
