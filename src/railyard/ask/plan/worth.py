"""What a little more is worth: a microsecond of a hop, a tail, a nine of availability, the network's share, carbon."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railyard.catalog.grids import SOURCE, USUAL, grid
from railyard.catalog.types import Range
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import ABSENT, HOURS_PER_YEAR, Carbon, carbon
from railyard.measure.cost.capital import NETWORK_COMPONENTS
from railyard.work.study import study
from railyard.work.training.likely import PARALLELISM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.measure.result.section import Band
    from railyard.measure.result.variants import TrainingVariant
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.plan_section import WorthSection


@dataclass(frozen=True)
class ChangeWorth:
    """Worth of one change.

    Attributes:
        by: How far it is moved, in `unit`, which dollars are for as well.
        steps: Step without and with it, s, by draw.
        usd_per_year: Dollars a year for one unit: what the same tokens cost more. The low end is the least of the draws
            at the low end of all prices, the typical one the middle draw at typical prices.
    """

    name: str
    by: float
    unit: str
    steps: tuple[tuple[float, float], ...]
    usd_per_year: Range


@dataclass(frozen=True)
class WorthBench:
    """Runs a scenario with some keys otherwise; its layout is found once.

    Attributes:
        draft: The scenario, its first variant.
    """

    draft: Draft
    fixed: Mapping[str, Any]
    ranks: int
    servers: int
    hop_ps: int
    mtbf_h: Range

    @staticmethod
    def of(draft: Draft) -> WorthBench:
        """A scenario whose layout stands.

        Raises:
            InputError: It does not train, or cannot be run.
        """
        if draft.kind != "training":
            raise InputError(
                "`plan worth` needs one training job",
                key="workload",
                found=draft.kind,
                allowed="training",
            )
        alone = draft.with_values({"compare": {}, "repeat": 1}, "plan worth")
        job = study.prepare(alone)[0]
        keys = {PARALLELISM: job.training.layout.parallelism()}
        cluster = job.cluster
        hop_ps, mtbf_h = cluster.fabric.hop_latency_ps, job.assumptions.mtbf_h
        return WorthBench(alone, keys, cluster.ranks, cluster.servers, hop_ps, mtbf_h)

    def run(self, values: Mapping[str, Any]) -> TrainingVariant:
        """One run."""
        draft = self.draft.with_values({**self.fixed, **values}, "plan worth")
        found = study.run(draft, searched=False).result.variants[0]
        return cast("TrainingVariant", found)

    def moved(
        self, by: float, without: Mapping[str, Any], moved: Mapping[str, Any], draws: int
    ) -> tuple[tuple[tuple[float, float], ...], Range]:
        """Steps and dollars a year, as in `ChangeWorth`, of keys without a change and with it, on so many draws."""
        pairs = []
        for draw in range(draws):
            seed = {"seed": self.draft.seed + draw}
            pairs.append((self.run({**without, **seed}), self.run({**moved, **seed})))
        ends = [sorted(column) for column in zip(*(dearer(*pair, self.ranks) for pair in pairs), strict=True)]
        steps = tuple((one.step.seconds, other.step.seconds) for one, other in pairs)
        typical = ends[1][draws // 2] / by
        edges = (ends[0][0] / by, typical, ends[2][-1] / by)
        return steps, Range(min(edges), typical, max(edges))


def dearer(one: TrainingVariant, other: TrainingVariant, ranks: int) -> tuple[float, float, float]:
    """Dollars a year by which the tokens of one run cost more in another: low, typical, high prices."""
    found = []
    for end in ("low", "typical", "high"):
        hourly = getattr(one.cpmt.usd_per_gpu_h, end) * ranks
        found.append((getattr(other.cpmt, end) / getattr(one.cpmt, end) - 1) * hourly * HOURS_PER_YEAR)
    return found[0], found[1], found[2]


Z90 = 1.2815515655446004
"""Standard normal quantile of 90 %."""

WARM_UP_YEARS = 1
MOST_SPARES = 0.5
"""Most spares, as a share of the servers: beyond, a nine is not for sale."""


@dataclass(frozen=True)
class ServerOutages:
    """Failures and repairs of servers.

    Attributes:
        mtbf_h: Hours between two outages of one server that need a repair.
        repair_p90_h: Its 90th percentile.
    """

    servers: int
    mtbf_h: float
    repair_h: float
    repair_p90_h: float
    years: int
    seed: int

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm of a repair."""
        return math.log(self.repair_p90_h / self.repair_h) / Z90

    def out(self) -> NDArray[np.float64]:
        """float64[most out at once + 1], share of the time for which so many servers are out."""
        random = np.random.default_rng(self.seed)
        span_h = (self.years + WARM_UP_YEARS) * HOURS_PER_YEAR
        count = random.poisson(self.servers * span_h / self.mtbf_h)
        begin = random.uniform(0.0, span_h, count)
        end = begin + self.repair_h * np.exp(self.sigma * random.standard_normal(count))
        first = WARM_UP_YEARS * HOURS_PER_YEAR
        times = np.clip(np.concatenate([begin, end]), first, span_h)
        order = np.argsort(times, kind="stable")
        level = np.cumsum(np.repeat([1, -1], count)[order])
        length = np.diff(np.append(times[order], span_h))
        share = np.bincount(np.maximum(level, 0), weights=length) / (span_h - first)
        share[0] += 1.0 - share.sum()
        found: NDArray[np.float64] = share
        return found


def availability(out: NDArray[np.float64], spares: int) -> float:
    """Share of the time in which no more servers are out than there are spares."""
    return float(out[: spares + 1].sum())


def spares_for(out: NDArray[np.float64], wanted: float, servers: int) -> int | None:
    """Fewest spares with which the job runs for such a share of the time; None where half the servers do not do."""
    sums = np.cumsum(out)
    enough = np.flatnonzero(sums >= wanted)
    spares = int(enough[0]) if len(enough) else len(out)
    return spares if len(enough) and spares <= max(1, math.floor(servers * MOST_SPARES)) else None


Z999 = 3.090232306167813
"""Standard normal quantile of 99.9 %: a spread of sigma makes the slowest of 1,000 so many sigma slower."""

PS = 1e12
ENDS = ("low", "typical", "high")
NETWORK_POWER = ("nic", "switch", "optics")


@dataclass(frozen=True)
class Nine:
    """One level of availability.

    Attributes:
        wanted: Share of the time in which all servers that the job needs are up.
        spares: Spare servers, few, usual and many failures; None where half as many do not do.
        reached: What these give, usual failures; None where there are none.
        usd_per_year: Of these spares: capital, space, operations, idle power.
        worth_usd_per_year: What the cluster costs in the time that the level before does not run and this one does.
    """

    wanted: float
    spares: tuple[int | None, int | None, int | None]
    reached: float | None
    usd_per_year: Range | None
    step_usd_per_year: float | None
    worth_usd_per_year: float | None


@dataclass(frozen=True)
class NetworkShare:
    """Share of the network in power and cost.

    Attributes:
        joules: Of the joules of all parts, without cooling.
        usd_per_year: Dollars a year, typical.
    """

    capex: Range
    usd: Range
    joules: Range
    usd_per_year: float


@dataclass(frozen=True)
class WorthReport:
    """Worth of all changes.

    Attributes:
        hop: A microsecond more in every switch.
        tail: 0.1 % more of the slowest of 1,000 computations.
        nines: Levels of availability, in the order asked for.
    """

    name: str
    usd_per_year: Range
    hop: ChangeWorth
    tail: ChangeWorth
    nines: tuple[Nine, ...]
    network: NetworkShare
    carbon: tuple[Carbon, ...]


def worth(draft: Draft, progress: Callable[[str, float], None]) -> WorthReport:
    """Computes what a small change is worth to the job of a scenario.

    Args:
        draft: One training job; `plan.worth` says how far things are moved.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: It does not train, cannot be run, or names an unknown grid.
    """
    from railyard.work.scenario.plan_section import PlanSection

    section = (draft.scenario.plan or PlanSection()).worth
    own = draft.scenario.economics.at_site("grid")
    named = [*([own] if own else []), *(section.grids or USUAL)]
    places = list(dict.fromkeys(grid(name, "plan.worth.grids") for name in named))
    progress("running the scenario", 0.0)
    bench = WorthBench.of(draft)
    base = bench.run({})
    progress("with a slower hop", 0.1)
    key = "cluster.back_end.fabric.hop_latency"
    held = {key: f"{bench.hop_ps} ps"}
    slower = {key: f"{bench.hop_ps + round(section.hop * PS)} ps"}
    by = section.hop * 1e6
    hop = ChangeWorth("latency of every switch", by, "us", *bench.moved(by, held, slower, section.draws))
    progress("with a longer tail", 0.5)
    calm, shaky = {"jitter": {"law": "none"}}, {"jitter": {"sigma": section.tail / Z999}}
    by = section.tail * 1e3
    tail = ChangeWorth("slowest of 1,000", by, "0.1 %", *bench.moved(by, calm, shaky, section.draws))
    progress("drawing outages", 0.9)
    year = Range(*(getattr(base.cpmt.usd_per_gpu_h, end) * bench.ranks * HOURS_PER_YEAR for end in ENDS))
    return WorthReport(
        name=draft.title,
        usd_per_year=year,
        hop=hop,
        tail=tail,
        nines=_worth_nines(section, base, bench, year),
        network=_network(base, year),
        carbon=tuple(carbon(one, _range(base.power.total_w), _range(base.cpmt.joules_per_token)) for one in places),
    )


def _range(band: Band) -> Range:
    return Range(band.low, band.typical, band.high)


def _worth_nines(section: WorthSection, base: TrainingVariant, bench: WorthBench, year: Range) -> tuple[Nine, ...]:
    """Levels, each with what it costs beyond the one before and what it gives."""
    servers = bench.servers
    drawn = [
        ServerOutages(
            servers,
            hours * servers / bench.ranks / section.out_share,
            section.repair / 3600,
            section.repair_p90 / 3600,
            section.years,
            bench.draft.seed,
        ).out()
        for hours in (bench.mtbf_h.high, bench.mtbf_h.typical, bench.mtbf_h.low)
    ]
    each = spare_usd_per_year(base, year, servers)
    found: list[Nine] = []
    before_usd, before_up = 0.0, availability(drawn[1], 0)
    for wanted in sorted(section.nines):
        few, usual, many = (spares_for(out, wanted, servers) for out in drawn)
        if usual is None:
            found.append(Nine(wanted, (few, usual, many), None, None, None, None))
            continue
        up, usd = availability(drawn[1], usual), usual * each.typical
        price = Range((few or 0) * each.low, usd, (usual if many is None else many) * each.high)
        gain = (up - before_up) * year.typical
        found.append(Nine(wanted, (few, usual, many), up, price, usd - before_usd, gain))
        before_usd, before_up = usd, up
    return tuple(found)


def spare_usd_per_year(base: TrainingVariant, year: Range, servers: int) -> Range:
    """Dollars a year of a spare server, cabled and idle: its part of all but the energy that work draws."""
    shares = {row.name: row for row in base.cpmt.breakdown}
    found = []
    for end, whole in zip(ENDS, (year.low, year.typical, year.high), strict=True):
        total = getattr(base.cpmt, end)
        idle = sum(getattr(shares[name], end) for name in ("capital", "space", "operations"))
        found.append(whole * idle / total / servers)
    return Range(*found)


def _network(base: TrainingVariant, year: Range) -> NetworkShare:
    """The network's part of capital, of the dollars of an hour and of joules; ends of all prices together."""
    parts = {row.name: row for row in base.cpmt.breakdown}
    capex, usd, joules = [], [], []
    for end in ENDS:
        bought = {row.name: getattr(row, f"{end}_usd") for row in base.capex.components}
        drawn = {row.name: getattr(row, f"{end}_w") for row in base.power.components}
        of_capex = sum(bought.get(name, 0.0) for name in NETWORK_COMPONENTS) / (
            sum(bought.values()) - bought.get("installation", 0.0)
        )
        network_w = sum(drawn.get(name, 0.0) for name in NETWORK_POWER)
        of_joules = network_w / getattr(base.power.it_w, end)
        of_space = network_w / getattr(base.power.provisioned_w, end)
        shares = {"capital": of_capex, "operations": of_capex, "energy": of_joules, "space": of_space}
        paid = sum(getattr(parts[name], end) * share for name, share in shares.items())
        capex.append(of_capex)
        usd.append(paid / getattr(base.cpmt, end))
        joules.append(of_joules)
    return NetworkShare(_spread(capex), _spread(usd), _spread(joules), usd[1] * year.typical)


def _spread(values: Sequence[float]) -> Range:
    """Typical prices, and the least and the most of all ends."""
    return Range(min(values), values[1], max(values))


def to_json(found: WorthReport) -> dict[str, Any]:
    """The result as `--json` prints it; docs/explanation/economics.md names every key."""
    return {
        "name": found.name,
        "usd_per_year": asdict(found.usd_per_year),
        "hop_us": _moved(found.hop),
        "tail_0_1_percent": _moved(found.tail),
        "nines": [asdict(one) for one in found.nines],
        "network": asdict(found.network),
        "carbon": {
            "grids": [
                {
                    "grid": one.grid.name,
                    "g_per_kwh": one.grid.g_per_kwh,
                    "year": one.grid.year,
                    "tonnes_per_year": asdict(one.tonnes_per_year),
                    "grams_per_million_tokens": asdict(one.grams_per_million),
                }
                for one in found.carbon
            ],
            "source": SOURCE,
            "absent": ABSENT,
        },
    }


def _moved(one: ChangeWorth) -> dict[str, Any]:
    return {
        "moved": one.name,
        "by": one.by,
        "unit": one.unit,
        "usd_per_year": asdict(one.usd_per_year),
        "draws": [{"step_s": before, "step_moved_s": after} for before, after in one.steps],
    }
