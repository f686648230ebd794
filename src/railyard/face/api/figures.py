"""The figures at the head of a result, their names and formats, and which of them moved."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.measure import numbers
from railyard.measure.decompose import NETWORK_CAUSES
from railyard.measure.result.answers import DiffOneSided
from railyard.measure.result.section import flatten
from railyard.work.study.folder import result_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.measure.result.section import Leaf

    Spent = dict[str, tuple[str, float]]
    from pathlib import Path

    Leaves = Mapping[str, Leaf]


ROUNDING = 5e-4
"""Figures that differ by no more than this share of the larger one are the same in three digits."""

_UNITS: Mapping[str, Callable[[float, float], str]] = {
    "s": numbers.seconds,
    "us": lambda value, like: numbers.seconds(value * 1e-6, like * 1e-6),
    "share": lambda value, _: f"{100 * value:.3g} %",
    "USD": numbers.dollars,
    "W": numbers.power,
    "bytes": lambda value, like: f"{numbers.short(value / 2**30)} GiB" if abs(like) >= 2**27 else f"{value:,.0f} B",
    "bps": lambda value, _: f"{numbers.short(value / 1e9)} Gb/s",
    "": lambda value, _: numbers.short(value, 4),
}
"""Formats of units; the largest value decides on the prefix."""

_ENDINGS = (("_s", "s"), ("_us", "us"), ("_usd", "USD"), ("_w", "W"), ("_bytes", "bytes"), ("_bps", "bps"))
"""Endings of keys of results, with their units."""


@dataclass(frozen=True)
class Figure:
    """A figure that heads results.

    Attributes:
        path: Within a variant; `*` stands for anything, such as the name of a row.
        words: How it is called; `*` is what stood for it.
        detail: Whether it is a part of another figure.
    """

    path: str
    words: str
    unit: str = ""
    detail: bool = False


FIGURES: tuple[Figure, ...] = (
    Figure("step.seconds", "step", "s"),
    Figure("serving.ttft_s.p99", "TTFT p99", "s"),
    Figure("serving.tpot_s.p99", "TPOT p99", "s"),
    Figure("serving.ttft_s.p50", "TTFT p50", "s"),
    Figure("serving.tpot_s.p50", "TPOT p50", "s"),
    Figure("serving.e2e_s.p99", "time to the last token p99", "s"),
    Figure("serving.slo.attainment", "SLO attainment", "share"),
    Figure("serving.slo.goodput_rps", "goodput (requests/s)"),
    Figure("tax.goodput_lost", "goodput lost to the scale-out network", "share"),
    Figure("objectives.cpmt", "cost per million tokens", "USD"),
    Figure("objectives.jct", "JCT", "s"),
    Figure("objectives.step", "step", "s"),
    Figure("objectives.capex", "capex", "USD"),
    Figure("objectives.power", "power", "W"),
    Figure("objectives.*", "*"),
    Figure("operate.utilization", "utilization", "share"),
    Figure("operate.goodput", "goodput", "share"),
    Figure("operate.ettr", "ETTR", "share"),
    Figure("operate.*.per_useful_accelerator_hour.typical", "cost per useful GPU-hour", "USD"),
    Figure("operate.queue_s.p50", "wait in the queue p50", "s"),
    Figure("operate.queue_s.p99", "wait in the queue p99", "s"),
    Figure("operate.jct_s.p50", "JCT p50", "s"),
    Figure("operate.jct_s.p99", "JCT p99", "s"),
    Figure("jobs[*].together.step_s", "step of *", "s"),
    Figure("jobs[*].together.ttft_s.p50", "TTFT p50 of *", "s"),
    Figure("jobs[*].slowdown", "slowdown of *"),
    Figure("tax.tokens_lost", "network tax", "share"),
    Figure("tax.scale_up.tokens_lost", "scale-up tax", "share"),
    Figure("jct.seconds", "JCT", "s"),
    Figure("cpmt.typical", "cost per million tokens", "USD"),
    Figure("serving.cpmt.total.typical", "cost per million tokens", "USD"),
    Figure("utilization.gpu", "GPU utilization", "share"),
    Figure("utilization.mfu", "MFU", "share"),
    Figure("utilization.tokens_per_s_per_gpu", "tokens/s per GPU"),
    Figure("*power.total_w.typical", "power", "W"),
    Figure("*capex.total_usd.typical", "capex", "USD"),
    Figure("packet.fct_us.p50", "FCT p50", "us"),
    Figure("packet.fct_us.p99", "FCT p99", "us"),
    Figure("packet.fct_us.max", "slowest flow", "us"),
    Figure("faults[*].lost_s", "lost to *", "s"),
    Figure("memory.rows[*].total_bytes", "memory of stage *", "bytes", detail=True),
    Figure("collectives[*].mean_s", "collective *", "s", detail=True),
    Figure("power.components[*].typical_w", "power of *", "W", detail=True),
    Figure("capex.components[*].typical_usd", "capex of *", "USD", detail=True),
    Figure("network.tiers[*].max_utilization", "fullest link of *", "share", detail=True),
)
"""All figures, in the order in which people ask for them."""

CHOICES: Mapping[str, str] = {
    "verdict.leading": "leading variant",
    "verdict.best": "best variant",
    "best": "best design",
    "outcome": "outcome",
    "serving.outcome": "outcome",
    "bottleneck.name": "bottleneck",
}
"""Words that head results, by path."""


@dataclass(frozen=True)
class Moved:
    """A figure that differs between two documents.

    Attributes:
        variant: Whose; empty where the document has one part.
        path: Within the variant.
        words: How it is called.
        unit: Unit of both values, empty for a plain number.
        rank: Place among `FIGURES`; behind them where it is none of these.
        detail: Whether it is a part of another figure.
    """

    variant: str
    path: str
    words: str
    unit: str
    old: float
    new: float
    rank: int
    detail: bool

    @property
    def change(self) -> float:
        """New minus old."""
        return self.new - self.old

    @property
    def share(self) -> float | None:
        """The change over the old value; None where that is 0."""
        return self.change / abs(self.old) if self.old else None

    @property
    def size(self) -> float:
        """The change over the larger of both, 0 to 2."""
        return abs(self.change) / max(abs(self.old), abs(self.new))


def one_sided(variant: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> list[DiffOneSided]:
    """Headline figures of one variant that only one document has, in the order of `FIGURES`."""
    rows = []
    for path in dict.fromkeys((*old, *new)):
        leaves = [each.get(path) for each in (old, new)]
        values = [float(leaf) if _number(leaf) else None for leaf in leaves]
        known = _known(path) if values.count(None) == 1 else None
        if known is not None and not known[1].detail:
            absent = path not in (old if values[0] is None else new)
            row = {"variant": variant, "path": path, "figure": known[2], "unit": known[1].unit, "absent": absent}
            rows.append((known[0], DiffOneSided.model_validate({**row, "old": values[0], "new": values[1]})))
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


def moved(variant: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf], *, every: bool) -> list[Moved]:
    """Figures of one variant that moved beyond rounding: those that head results first, then by size.

    Args:
        variant: Name of the variant.
        old: Leaves of the variant in the old document, by path.
        new: Leaves of the variant in the new document, by path.
        every: Whether every number counts where it has none that heads results.
    """
    pairs = list(_pairs(old, new))
    rows = [_moved(variant, known, *pair) for pair in pairs if (known := _known(pair[0])) is not None]
    if every and not rows:
        rows = [
            _moved(variant, (len(FIGURES), Figure(path, path, _unit_of(path)), path), path, *both)
            for path, *both in pairs
        ]
    rows = [row for row in rows if beyond_rounding(row.old, row.new)]
    return sorted(rows, key=lambda row: (row.detail, row.rank if not row.detail else 0, -row.size, row.path))


def _moved(variant: str, known: tuple[int, Figure, str], path: str, old: float, new: float) -> Moved:
    rank, figure, words = known
    return Moved(variant, path, words, figure.unit, old, new, rank, figure.detail)


def beyond_rounding(old: float, new: float, scale: float = 0.0) -> bool:
    """Whether two values differ by more than rounding, of themselves or of what they are a part of."""
    return abs(new - old) > ROUNDING * max(abs(old), abs(new), scale)


def _pairs(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[tuple[str, float, float]]:
    """Paths of numbers that both have."""
    for path, before in old.items():
        after = new.get(path)
        if _number(before) and _number(after):
            yield path, float(before), float(after)


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@cache
def _patterns() -> list[re.Pattern[str]]:
    return [re.compile("(.*)".join(map(re.escape, figure.path.split("*")))) for figure in FIGURES]


@cache
def _known(path: str) -> tuple[int, Figure, str] | None:
    """Place, record and words of a figure that heads results."""
    for rank, (figure, pattern) in enumerate(zip(FIGURES, _patterns(), strict=True)):
        match = pattern.fullmatch(path)
        if match is not None:
            star = match[1].replace("_", " ") if match.groups() else ""
            return rank, figure, figure.words.replace("*", star)
    return None


def _unit_of(path: str) -> str:
    return next((unit for ending, unit in _ENDINGS if path.endswith(ending)), "")


def shown(value: float, unit: str, like: float | None = None) -> str:
    """A value for people, with the prefix that suits it or another value."""
    return _UNITS[unit](value, value if like is None else like)


def shown_pair(old: float, new: float, unit: str) -> str:
    """Two values with one unit: `9.12 -> 8.71 s`."""
    like = max(abs(old), abs(new))
    return numbers.pair(shown(old, unit, like), shown(new, unit, like), "->")


def shown_change(old: float, new: float, unit: str) -> str:
    """Change of a value in words: `-4.5 %`; of shares in points, `+0.2 pt`."""
    if unit == "share":
        return f"{100 * (new - old):+.3g} pt"
    return "from 0" if old == 0 else f"{100 * (new - old) / abs(old):+.1f} %"


_EXPOSED = "exposed communication"
_SLOWED = "kernels slowed by communication"
_WORDS = {"bubble": "pipeline bubble", "dependency": "host", **{cause.word: _EXPOSED for cause in NETWORK_CAUSES}}
_ANSWERS = {
    "serving.ttft_parts.p99.queue_s": "queue",
    "serving.ttft_parts.p99.transfer_s": "KV transfers",
    "serving.ttft_parts.p99.collectives_s": "collectives",
    "serving.ttft_parts.p99.compute_s": "compute",
}


@dataclass(frozen=True)
class Part:
    """A part of the step, or of the time to the first token.

    Attributes:
        name: Cause, and the group of ranks where there is one: `bandwidth (dp)`.
        kind: What it is called in a sentence: `exposed communication`.
        old, new: Seconds.
        moved: Whether it moved by more than the rounding of the whole.
    """

    variant: str
    name: str
    kind: str
    old: float
    new: float
    moved: bool

    @property
    def change(self) -> float:
        """New minus old, s."""
        return self.new - self.old


def parts(variant: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> list[Part]:
    """Every part of the step of two documents, the one that moved most first."""
    both, slowed = [_spent(old), _spent(new)], [_slowed_s(old), _slowed_s(new)]
    if None not in slowed:  # by time they are computation, by cause they are the network's
        both = [_parted(spent, slowed_s or 0.0) for spent, slowed_s in zip(both, slowed, strict=True)]
    whole = max(sum(seconds for _, seconds in each.values()) for each in both)
    rows = []
    for name in dict.fromkeys((*both[0], *both[1])):
        kind = (both[0].get(name) or both[1][name])[0]
        before, after = (each[name][1] if name in each else 0.0 for each in both)
        rows.append(Part(variant, name, kind, before, after, beyond_rounding(before, after, whole)))
    return sorted(rows, key=lambda row: -abs(row.change))


def by_kind(rows: list[Part]) -> dict[str, float]:
    """Seconds by which each kind of part moved, the most first."""
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[row.kind] += row.change
    return dict(sorted(found.items(), key=lambda item: -abs(item[1])))


def _spent(leaves: Mapping[str, Leaf]) -> Spent:
    """Kind and seconds of each part by its name."""
    found: Spent = {}
    for path, seconds in leaves.items():
        if path.startswith("time[") and path.endswith("].seconds") and isinstance(seconds, int | float):
            row = path.removesuffix("seconds")
            cause, group = str(leaves.get(f"{row}cause", "")), str(leaves.get(f"{row}group", ""))
            name = f"{cause} ({group})" if group else cause
            found[name] = (_WORDS.get(cause, cause), found.get(name, ("", 0.0))[1] + seconds)
        elif path in _ANSWERS and isinstance(seconds, int | float):
            found[_ANSWERS[path]] = (_ANSWERS[path], float(seconds))
    return found


def _slowed_s(leaves: Mapping[str, Leaf]) -> float | None:
    """Seconds by which communication slows kernels; None where the document does not say."""
    step = leaves.get("step.seconds")
    shares = [leaves.get(f"tax.{path}slowed_kernels") for path in ("", "scale_up.")]
    known = [share for share in (step, *shares) if isinstance(share, int | float)]
    return None if len(known) < 1 + len(shares) else known[0] * sum(known[1:])


def _parted(spent: Spent, slowed_s: float) -> Spent:
    compute_s = spent.get("compute", ("", 0.0))[1] - slowed_s
    return {**spent, "compute": ("compute", compute_s), _SLOWED: (_SLOWED, slowed_s)}


PARTS = ("variants", "front", "runners_up")
"""Lists whose rows are compared by themselves: variants of a run, designs of a plan."""

_PART = re.compile(rf"({'|'.join(PARTS)})\[((?:[^\[\]]|\[[^\]]*\])*)\]\.")


@dataclass(frozen=True)
class Document:
    """A result of a run, or an answer of another command.

    Attributes:
        file: Where it stands, or the command that gave it.
        leaves: All values by path.
    """

    file: str
    leaves: Leaves

    @property
    def kind(self) -> str:
        """Its format without the number: `railyard`, `railyard-plan`."""
        return str(self.leaves.get("format", "")).partition("/")[0]

    def text(self, *paths: str) -> str:
        """The first of some values that is there, as text."""
        return next((str(self.leaves[path]) for path in paths if path in self.leaves), "")

    @property
    def version(self) -> str:
        """Version of Railyard."""
        return self.text("provenance.version", "version")

    def parts(self) -> dict[str, dict[str, Leaf]]:
        """Leaves of each variant or design by its name, by paths within; all others under the empty name."""
        found: dict[str, dict[str, Leaf]] = {"": {}}
        for path, value in self.leaves.items():
            match = _PART.match(path)
            if match is None:
                found[""][path] = value
            else:
                found.setdefault(match[2], {})[path[match.end() :]] = value
        return found


def read(path: Path) -> Document:
    """A document from its file or the folder that holds it.

    Raises:
        InputError: There is none, or it is not a JSON document of Railyard.
    """
    file = _file(path)
    if file.suffix in {".yaml", ".yml"}:
        hint = f"run it first: `railyard run {file}` names the folder of the run, which `diff` takes"
        raise InputError("this is a scenario, not a result", file=file, hint=hint)
    try:
        found = json.loads(read_text(file))
        leaves = dict(flatten(found))
    except (ValueError, RecursionError) as error:
        hint = "give the folder of a run, or a file of `--json`"
        raise InputError(f"this is not complete JSON: {error}", file=file, hint=hint) from None
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("railyard"):
        given: Any = found.get("format") if isinstance(found, dict) else type(found).__name__
        raise InputError(
            "this is not a result of Railyard", file=file, key="format", found=given, allowed="railyard..."
        )
    return Document(str(path), leaves)


def _file(path: Path) -> Path:
    """The document in a folder: a run's result, or another command's answer."""
    from railyard.measure.result.answers import NAMES

    answers = [path / f"{name}.json" for name in NAMES.values()]
    kept = next((answer for answer in answers if answer.is_file()), None)
    return result_file(path) if kept is None or (path / "result.json").is_file() else kept
