"""Where a step or a wait for the first token moved: its parts, before and after."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.face.api.difference.figures import beyond_rounding
from railyard.measure.causes import NETWORK_CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.measure.result.leaves import Leaf

    Spent = dict[str, tuple[str, float]]

_EXPOSED = "exposed communication"
_SLOWED = "kernels slowed by communication"
_WORDS = {"bubble": "pipeline bubble", "dependency": "host", **{cause.word: _EXPOSED for cause in NETWORK_CAUSES}}
_ANSWERS = {
    "serving.ttft_parts.p99.queue_s": "queue",
    "serving.ttft_parts.p99.transfer_s": "transfers of keys and values",
    "serving.ttft_parts.p99.collectives_s": "collectives",
    "serving.ttft_parts.p99.compute_s": "compute",
}


@dataclass(frozen=True)
class Part:
    """A part of the step, or of the time to the first token.

    Attributes:
        variant: Whose.
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
