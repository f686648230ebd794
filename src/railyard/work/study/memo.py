"""A decision memo as data: what one page for a decision contains, for results of any kind and for plans.

Kinds of work fill it in their `present.py` (`Presentation.memo`), plans in `ask/plan/memo.py`; `face/memo/` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.kit.prose import listed
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import Band
    from railyard.measure.result.variants import Bill

MOST_LINES = 5
"""Most lines of a list on the page."""
MOST_BARS = 12
"""Most bars of the chart, and rows of the table."""


@dataclass(frozen=True)
class LossChart:
    """Stacked bars, one for each variant.

    Attributes:
        title: The quantity of the bars, with its unit.
        unit: Behind each figure: ` %`, say; `$` stands before it.
        bars: Amount of each part, by variant.
        bound: The sum that no product goes below; None: unknown.
        bound_name: The variant that it is of.
    """

    title: str
    unit: str
    bars: Mapping[str, Mapping[str, float]]
    bound: float | None = None
    bound_name: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        unit: str,
        bars: Mapping[str, Mapping[str, float]],
        bound: float | None = None,
        bound_name: str = "",
        *,
        best_first: bool = False,
    ) -> LossChart:
        """The first `MOST_BARS` bars without what all names share; the title says what is left out."""
        shown, more = list(bars)[:MOST_BARS], len(bars) - MOST_BARS
        names, shared = bar_names(list(bars))
        said = f"; all {shared}" if shared else ""
        if more > 0:
            said += f"; and {more} more" + (f", each worse than {names[shown[-1]]}" if best_first else " in the report")
        return cls(f"{title}{said}", unit, {names[name]: bars[name] for name in shown}, bound, bound_name)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of parts, the largest first."""
        most: dict[str, float] = {}
        for bar in self.bars.values():
            for part, amount in bar.items():
                most[part] = max(most.get(part, 0.0), amount)
        return tuple(sorted((part for part in most if most[part] > 0.0), key=lambda part: -most[part]))

    @property
    def top(self) -> float:
        """The longest bar, or the bound where that is longer."""
        return max([sum(bar.values()) for bar in self.bars.values()] + [self.bound or 0.0]) or 1.0

    def amount(self, value: float) -> str:
        """A figure with its unit: `3.9 %`, `$0.31`, `221 ms`."""
        if self.unit == " s":
            return numbers.seconds(value)
        return f"${numbers.short(value)}" if self.unit == "$" else f"{value:.1f}{self.unit}"


@dataclass(frozen=True)
class DecisionMemo:
    """One page for a decision.

    Attributes:
        recommendation: The decision, its price and its band, in one sentence.
        changes: Conditions that would change the choice.
        confidence: Bands of the figures and the measurements behind them.
        assumptions: Defaults, warnings, and effects that the model leaves out.
        origin: Version, engine, seed and digest, by which the figures can be reproduced.
        purchase: What to buy, and how its bill differs from the next one; empty if there is no choice.
        table: Headings, then a row for each variant; empty if nothing is priced.
        subject: Cluster and work that all variants share.
    """

    title: str
    recommendation: str
    figures: Sequence[KeyFigure]
    chart: LossChart
    changes: Sequence[str]
    confidence: Sequence[str]
    assumptions: Sequence[str]
    origin: str
    purchase: str = ""
    table: Sequence[Sequence[str]] = ()
    subject: str = ""


def bar_names(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Names of variants without the parts between commas that all of them have, and those parts."""
    parts = {name: name.split(", ") for name in names}
    first = parts[names[0]] if len(names) > 1 else []
    shared = [part for part in first if all(part in found for found in parts.values())]
    left = {name: ", ".join(part for part in found if part not in shared) for name, found in parts.items()}
    if "" in left.values() or len(set(left.values())) < len(left):
        return {name: name for name in names}, ""
    return left, ", ".join(shared)


def warnings(result: Result) -> list[str]:
    """Warnings of each variant, one line each, without duplicates."""
    found: dict[str, list[str]] = {}
    for variant in result.variants:
        for line in getattr(variant, "warnings", ()):
            found.setdefault(line, []).append(variant.name)
    everybody = len(result.variants)
    return [
        f"note: {'' if len(names) == everybody else f'with {listed(names)}: '}{line}" for line, names in found.items()
    ]


def cost_figure(name: str, dollars: Band | None) -> KeyFigure:
    """A price with its range."""
    if dollars is None:
        return KeyFigure(name, "not known")
    low, typical, high = map(numbers.dollars, dollars.ends)
    return KeyFigure(name, typical, f"{low} to {high} with all prices low or high")


def origin_of(result: Result) -> str:
    """Where the figures of a result come from."""
    found = result.provenance
    return f"Railyard {found.version}, engine {found.engine}, seed {found.seed}, digest {found.digest[:16]}"


def subject_of(result: Result) -> str:
    """`1,024 accelerators in hgx-h100; llama-3-70b, 15 T tokens`, without what variants change."""
    changed = {key.rsplit(".", 1)[-1] for variant in result.variants for key in variant.settings}
    cluster, kinds = (_section(result.scenario.get(key)) for key in ("cluster", "workload"))
    work = next(map(_section, kinds.values()), {})
    said = []
    if {"accelerators", "server"} <= cluster.keys() and not changed & {"accelerators", "server"}:
        said.append(f"{cluster['accelerators']:,} accelerators in {cluster['server']}")
    named = [str(work[key]) for key in ("model",) if isinstance(work.get(key), str) and key not in changed]
    named += [f"{work['tokens']} tokens"] if work.get("tokens") and "tokens" not in changed else []
    return "; ".join([*said, *([", ".join(named)] if named else [])])


def _section(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def scope_of(bill: Bill | None) -> list[str]:
    """A sentence on what capital and power contain; none without a bill."""
    if bill is None:
        return []
    bought = ", ".join(row.name for row in bill.capex.components if row.typical_usd)
    cooled = any(row.name == "cooling" and row.typical_w for row in bill.power.components)
    return [f"capital contains {bought}, and no building; power is the mean draw{', cooling in' if cooled else ''}"]


def assumptions_of(result: Result, bill: Bill | None = None, missing: Sequence[str] = ()) -> list[str]:
    """Missing variants, contents of the bill, warnings and defaults, then what engine and model leave out.

    All but the first lines are counted only.
    """
    noted = [line.removeprefix("note: ") for line in warnings(result)]
    return shortened(
        [
            *missing,
            *scope_of(bill),
            *noted,
            *result.provenance.defaults,
            *(f"left out: {one}" for one in result.provenance.left_out),
        ]
    )


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines as sentences, and how many more there are."""
    shown = [sentence(line) for line in lines[:MOST_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"{more} more in the report."] if more > 0 else shown


def sentence(text: str) -> str:
    """Text with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


_NAMES: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "step_s": ("step time", numbers.seconds),
    "network_tax": ("network tax", numbers.percent),
    "ttft_s": ("TTFT p50", numbers.seconds),
    "tpot_s": ("TPOT p50", numbers.seconds),
}


def confidence_of(rows: Sequence[ErrorRow]) -> Iterator[str]:
    """A sentence for each figure with a band: the range, and the measurements that it comes from.

    The price has one range on the page, that of prices; how far the model's error moves it is in the report.
    """
    for row in rows:
        if row.figure not in _NAMES:
            continue
        name, show = _NAMES[row.figure]
        band = numbers.from_to(show(row.low), show(row.high))
        source = f"{row.rows} measurements of {row.sources} sources ({row.family})"
        yield f"80 % interval of {name} by model error alone: {band}, from {source}."
    if any(row.figure == "cpmt" for row in rows):
        yield "The range of the cost is that of prices alone; the report shows how far model error moves it."
