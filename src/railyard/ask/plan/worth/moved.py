"""A scenario with and without one thing moved, on the same draws: what the difference costs a year."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from railyard.ask.plan.drawing import HIGH, LEFT, RIGHT, WIDE, bars, document, svg, usd
from railyard.catalog.types import Range
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import HOURS_PER_YEAR
from railyard.work.remedies.changed import PARALLELISM
from railyard.work.study import study

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.plan.drawing import Row
    from railyard.measure.result.variants.work import TrainingVariant
    from railyard.work.scenario.load import Draft


def page(found: dict[str, Any]) -> str:
    """One page, offline.

    Args:
        found: As `to_json` gives it.
    """
    hop, tail, year = found["hop_us"], found["tail_0_1_percent"], found["usd_per_year"]
    name = html.escape(found["name"])
    parts = [
        f"<h1>{name}: what a little more is worth</h1>",
        f"<p>The cluster costs {usd(year['typical'])} a year ({usd(year['low'])} to {usd(year['high'])}). Bars are"
        " typical values, lines reach from the low to the high end of prices and draws.</p>",
        "<h2>Dollars a year</h2>",
        bars(
            [
                _row("1 us more in every switch", hop["usd_per_year"]),
                _row("0.1 % more of the slowest of 1,000", tail["usd_per_year"]),
            ]
        ),
        "<h2>The price of each nine, and what it gives</h2>",
        "<p>Spare servers with which the whole job has its servers for such a share of the time; blue: their dollars a"
        " year, orange: what the cluster costs in the time that is won over the level before.</p>",
        _nines(found["nines"]),
        "<h2>The network's share</h2>",
        bars([_share(words, found["network"][key]) for words, key in SHARES], most=1.0),
        "<h2>Carbon of a year's electricity by grid</h2>",
        bars([_tonnes(row) for row in found["carbon"]["grids"]]),
        f"<p>{html.escape(found['carbon']['source'])}. Absent: {html.escape(found['carbon']['absent'])}.</p>",
    ]
    return document(f"{found['name']}: worth", parts)


SHARES = (("of what is bought", "capex"), ("of the dollars of an hour", "usd"), ("of the joules", "joules"))


def _row(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], usd(band["typical"])


def _share(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:.1%}"


def _tonnes(row: dict[str, Any]) -> Row:
    band = row["tonnes_per_year"]
    words = f"{row['grid']} ({row['g_per_kwh']:g} g/kWh, {row['year']})"
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:,.0f} t"


def _nines(rows: Sequence[dict[str, Any]]) -> str:
    sold = [row for row in rows if row["usd_per_year"] is not None]
    top = max((max(row["step_usd_per_year"], row["worth_usd_per_year"]) for row in sold), default=0.0) or 1.0
    room = WIDE - LEFT - RIGHT
    out = []
    for number, row in enumerate(rows):
        y = HIGH * number
        words = f"{100 * row['wanted']:g} % of the time"
        out.append(f'<text x="{LEFT - 8:g}" y="{y + 17:g}" text-anchor="end">{words}</text>')
        if row["usd_per_year"] is None:
            out.append(f'<text x="{LEFT:g}" y="{y + 17:g}">more than half as many servers again</text>')
            continue
        pair = (row["step_usd_per_year"], row["worth_usd_per_year"])
        for line, (value, colour) in enumerate(zip(pair, ("#1f6feb", "#d9730d"), strict=True)):
            wide = max(value, 0.0) / top * room
            out.append(f'<rect x="{LEFT:g}" y="{y + 3 + 10 * line:g}" width="{wide:.1f}" height="9" fill="{colour}"/>')
        spares = row["spares"][1]
        text = f"{spares} spare{'s' if spares != 1 else ''}; {usd(pair[0])} for {usd(pair[1])}"
        end = LEFT + max(*pair, 0.0) / top * room
        out.append(f'<text x="{end + 8:.1f}" y="{y + 17:g}">{text}</text>')
    return svg(out, len(rows))


@dataclass(frozen=True)
class Change:
    """One thing that is moved.

    Attributes:
        name: What it is.
        by: How far, in `unit`.
        unit: Of it.
        without: Keys of the runs that it is compared with.
        moved: Keys that move it.
    """

    name: str
    by: float
    unit: str
    without: Mapping[str, Any]
    moved: Mapping[str, Any]


@dataclass(frozen=True)
class Moved:
    """What one thing is worth.

    Attributes:
        name: What was moved.
        by: How far, in its unit.
        unit: Of `by`, and of what dollars are for.
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
class Bench:
    """Runs a scenario with some keys otherwise; its layout is found once.

    Attributes:
        draft: The scenario, its first variant.
        fixed: Keys that every run has.
        ranks: Accelerators.
        servers: Of these.
        hop_ps: Latency of a switch of its back-end.
        mtbf_h: Hours between interruptions by one accelerator.
    """

    draft: Draft
    fixed: Mapping[str, Any]
    ranks: int
    servers: int
    hop_ps: int
    mtbf_h: Range

    @staticmethod
    def of(draft: Draft) -> Bench:
        """A scenario whose layout stands.

        Raises:
            InputError: It does not train, or cannot be run.
        """
        if draft.kind != "training":
            raise InputError(
                "what a little more is worth is known of one training job",
                key="workload",
                found=draft.kind,
                allowed="training",
            )
        alone = draft.with_values({"compare": {}, "repeat": 1}, "plan worth")
        job = study.prepare(alone)[0]
        keys = {PARALLELISM: job.training.layout.parallelism()}
        cluster = job.cluster
        hop_ps, mtbf_h = cluster.fabric.hop_latency_ps, job.assumptions.mtbf_h
        return Bench(alone, keys, cluster.ranks, cluster.servers, hop_ps, mtbf_h)

    def run(self, values: Mapping[str, Any]) -> TrainingVariant:
        """One run."""
        draft = self.draft.with_values({**self.fixed, **values}, "plan worth")
        found = study.run(draft, searched=False).result.variants[0]
        return cast("TrainingVariant", found)

    def moved(self, change: Change, draws: int) -> Moved:
        """One thing moved, on so many draws.

        Args:
            change: What is moved.
            draws: Seeds, from the scenario's on.
        """
        by = change.by
        pairs = []
        for draw in range(draws):
            seed = {"seed": self.draft.seed + draw}
            pairs.append((self.run({**change.without, **seed}), self.run({**change.moved, **seed})))
        ends = [sorted(column) for column in zip(*(dearer(*pair, self.ranks) for pair in pairs), strict=True)]
        steps = tuple((one.step.seconds, other.step.seconds) for one, other in pairs)
        typical = ends[1][draws // 2] / by
        edges = (ends[0][0] / by, typical, ends[2][-1] / by)
        return Moved(change.name, by, change.unit, steps, Range(min(edges), typical, max(edges)))


def dearer(one: TrainingVariant, other: TrainingVariant, ranks: int) -> tuple[float, float, float]:
    """Dollars a year by which the tokens of one run cost more in another: low, typical, high prices."""
    found = []
    for end in ("low", "typical", "high"):
        hourly = getattr(one.cpmt.usd_per_gpu_h, end) * ranks
        found.append((getattr(other.cpmt, end) / getattr(one.cpmt, end) - 1) * hourly * HOURS_PER_YEAR)
    return found[0], found[1], found[2]
