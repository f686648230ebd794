"""What a design is to the economics room: its bill, and the figures that follow of a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.outcome import Outcome, Spent
from railyard.measure.cost.carbon import carbon
from railyard.measure.cost.cost import CostModel, JobFacts, usd_per_h
from railyard.measure.cost.evaluate import cost_model
from railyard.measure.cost.parts import Part, component_of
from railyard.measure.job import Checkpointing
from railyard.model import flops
from railyard.work.training.mean_step import lost_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Range
    from railyard.cluster import Cluster
    from railyard.cluster.bill import BillOfMaterials
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.capital import Capex
    from railyard.measure.cost.grids import Grid
    from railyard.measure.cost.power import Power
    from railyard.work.training.spec import Training

    F = NDArray[np.float64]

HARDWARE = ("accelerators_usd", "servers_usd", "network_usd", "storage_usd")
"""Inputs that make up the capital."""


def parts_of(bill: BillOfMaterials) -> tuple[Part, ...]:
    """A bill as parts, one a catalogue name, component and power."""
    return tuple(Part(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in bill)


class Paid(ABC):
    """What designs of every kind of work have in common: capital, power, dollars an hour."""

    capex: Capex
    power: Power
    rack_w: float
    delivery_s: float
    site: str
    grid: Grid | None

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, Range]:
        """What the price of an hour follows from, each a range."""

    @property
    @abstractmethod
    def tokens_per_s(self) -> float:
        """Goodput tokens a second."""

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
    def racks(self) -> float:
        """By nameplate power."""
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


@dataclass(frozen=True, eq=False)
class Priced(Paid):
    """A design with a step: money, power, time.

    Attributes:
        capex: What it costs to buy.
        power: What it draws.
        model: Everything that its cost depends on.
        step_s: Mean step.
        busy: Share of the step in which accelerators compute.
        mfu: Model FLOP/s over the dense 16-bit peak.
        rack_w: Nameplate power that a rack takes.
        delivery_s: From the order until the last part is there.
        site: Where it stands; empty where there is one.
        grid: Whose electricity it draws; None: not said.
    """

    capex: Capex
    power: Power
    model: CostModel
    step_s: float
    busy: float
    mfu: float
    rack_w: float
    delivery_s: float = 0.0
    site: str = ""
    grid: Grid | None = None

    @property
    def inputs(self) -> Mapping[str, Range]:
        """What the price of an hour and of a token follows from, each a range."""
        return self.model.inputs

    @cached_property
    def tokens_per_s(self) -> float:
        """Goodput tokens a second."""
        return self.model.tokens_per_h(self.typical) / 3600

    @property
    def jct_s(self) -> float:
        """Until the job is done."""
        return self.model.job.tokens / self.tokens_per_s

    def under(self, inputs: Mapping[str, F], slower: F, goodputs: Goodputs) -> dict[str, F]:
        """Objectives for other inputs and steps."""
        step, job = self.step_s * slower, self.model.job
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
    outcome: Outcome,
    parts: Sequence[Part],
    assumptions: Assumptions,
    *,
    delivery_s: float = 0.0,
) -> Priced:
    """A design with what an engine found of it.

    Args:
        cluster: On what.
        training: The job.
        outcome: What an engine found.
        parts: The bill of the cluster.
        assumptions: Prices and rates.
        delivery_s: From the order until the last part is there.

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
    spent = Spent(outcome.rows, outcome.step_s, cluster.ranks)
    capex, power, model = cost_model(
        decomposition=spent, accelerator=cluster.accelerator, parts=parts, job=facts, assumptions=assumptions
    )
    useful = training.step_tokens * flops.model_flops_per_token(
        training.model, training.seq_len, causal=training.causal
    )
    peak = cluster.accelerator.flops.get("bf16", 0.0) * cluster.ranks * outcome.step_s
    rack_w = cluster.catalog.price("rack-power").range.typical
    mfu = useful / peak if peak else 0.0
    spent_on = (outcome.step_s, outcome.share("compute"), mfu, rack_w, delivery_s)
    return Priced(capex, power, model, *spent_on, assumptions.site, assumptions.grid)
