"""The line that says which figure moved and by which part of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.face.api import numbers
from railyard.face.api.difference.figures import ROUNDING, shown_change, shown_pair
from railyard.face.api.difference.steps import by_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.face.api.difference.figures import Choice, Moved, OneSided
    from railyard.face.api.difference.steps import Part

_SAID = 3
"""Parts of a step, or figures, that a sentence names."""


@dataclass(frozen=True)
class Size:
    """How much of two results was compared.

    Attributes:
        variants: Number of variants of the larger result.
        equal, differ: Values of both that are equal to the last digit, and that are not.
    """

    variants: int
    equal: int
    differ: int


def conclusion(
    figures: Sequence[Moved], sides: Sequence[OneSided], parts: Sequence[Part], choices: Sequence[Choice], size: Size
) -> str:
    """The answer in one line: the variant whose first figure moved most, and figures that only one result has.

    Args:
        figures: Figures that moved.
        sides: Headline figures that only one result has.
        parts: Parts of steps that moved.
        choices: Words that head results and changed.
        size: How much was compared.
    """
    if not size.equal + size.differ:
        return "the two results have no variant and no figure in common"
    chosen = [f"{row.what} {row.old} -> {row.new}" for row in choices if row.what != "bottleneck"]
    said = _lead(figures, parts, size.variants) if figures else _nothing(size.differ)
    return "; ".join([*chosen, said, *_lacking(sides)])


def _lead(figures: Sequence[Moved], parts: Sequence[Part], variants: int) -> str:
    firsts: dict[str, Moved] = {}
    for row in figures:
        firsts.setdefault(row.variant, row)
    lead = min(firsts.values(), key=lambda row: (row.rank, -round(row.size, 3)))
    text = f"{lead.words} {shown_pair(lead.old, lead.new, lead.unit)} ({shown_change(lead.old, lead.new, lead.unit)})"
    why = _parts([row for row in parts if row.variant == lead.variant], max(abs(lead.old), abs(lead.new)))
    named = f"{lead.variant}: " if variants > 1 and lead.variant else ""
    others = f"; {len(firsts) - 1} more of {variants} variants moved" if len(firsts) > 1 else ""
    return f"{named}{text}{f': {why}' if why else ''}{others}"


def _lacking(sides: Sequence[OneSided]) -> list[str]:
    """`not in OLD: network tax, scale-up tax`."""
    lines = []
    for name in ("OLD", "NEW"):
        rows = [row.figure for row in sides if row.absent and (row.old is None) == (name == "OLD")]
        words = list(dict.fromkeys(rows))
        if words:
            more = f" and {len(words) - _SAID} more" if len(words) > _SAID else ""
            lines.append(f"not in {name}: {', '.join(words[:_SAID])}{more}")
    return lines


def _nothing(differ: int) -> str:
    if not differ:
        return "no figure moved: all values are equal"
    return f"no figure moved by more than rounding ({100 * ROUNDING:.2g} %); {differ:,} values differ elsewhere"


def _parts(parts: Sequence[Part], like: float) -> str:
    """`exposed communication -0.31 s; compute unchanged`."""
    kinds = by_kind([row for row in parts if row.moved])
    said = [
        f"{kind} {'+' if seconds > 0 else '-'}{numbers.seconds(abs(seconds), like)}" for kind, seconds in kinds.items()
    ]
    still = any(row.kind == "compute" for row in parts) and "compute" not in kinds
    return "; ".join([*said[:_SAID], *(["compute unchanged"] if said and still else [])])
