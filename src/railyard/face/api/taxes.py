"""Network taxes in words: the share of tokens lost to the scale-out network, then that of scale-up networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.api import believed, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.measure.result.tax import TaxShares
    from railyard.measure.result.variants.variant import StepVariant

LEAST_SEEN = 0.0005
"""What would be printed as 0.0 %."""


def cell(shares: TaxShares, where: Mapping[str, str] | None = None) -> str:
    """`11.7 % (contention at leaf-spine 4.9, slowed kernels 6.7)`.

    Args:
        shares: A tax.
        where: Tiers of the network by the cause that is waited for there; None: none is named.
    """
    tiers = where or {}
    parts = [
        *((str(cause), share) for cause, share in shares.exposed.items()),
        ("slowed kernels", shares.slowed_kernels),
    ]
    seen = [
        f"{cause}{f' at {tiers[cause]}' if cause in tiers else ''} {100 * share:.1f}"
        for cause, share in sorted(parts, key=lambda part: -part[1])
        if share >= LEAST_SEEN
    ]
    total = numbers.percent(shares.tokens_lost)
    return f"{total} ({', '.join(seen)})" if seen else total


def error(variant: StepVariant) -> str:
    """`, 7.9 to 12.9 % within the model's error`; empty where nothing was validated, or nothing is lost."""
    band = believed.band_of(variant, "network_tax")
    known = band != numbers.NOT_APPLICABLE and variant.tax.tokens_lost >= LEAST_SEEN
    return f", {band} within the model's error" if known else ""


def others_cell(variant: StepVariant) -> str:
    """`bubble 9.1 %, straggler 0.2 %`: what no network changes, other than computation."""
    rest = variant.tax.rest.items()
    waits = [(cause, share) for cause, share in rest if cause != "compute" and share >= LEAST_SEEN]
    return ", ".join(f"{cause} {numbers.percent(share)}" for cause, share in waits) or "none"


def sentence(variant: StepVariant, name: str = "") -> str:
    """What the networks take of a variant: the first sentence of every answer about steps."""
    tax, what = variant.tax, _what(variant)
    whose = f"of the {what} of {name}" if name else f"of the {what}"
    return (
        f"The scale-out network takes {cell(tax)} {whose}{error(variant)}; scale-up networks take {cell(tax.scale_up)}."
    )


def of_two(best: StepVariant, worst: StepVariant, where: Mapping[str, str]) -> str:
    """The same of two variants, the better one first.

    Args:
        best: The better one.
        worst: The other.
        where: Tiers of the other's network by the cause that is waited for there.
    """
    inside = [numbers.percent(one.tax.scale_up.tokens_lost) for one in (best, worst)]
    to_both = inside[0] if inside[0] == inside[1] else f"{inside[0]} and {inside[1]}"
    return (
        f"{best.name} loses {cell(best.tax)} of its {_what(best)} to the scale-out network, {worst.name}"
        f" {cell(worst.tax, where)}{error(worst)}; scale-up networks take {to_both}."
    )


def _what(variant: StepVariant) -> str:
    return "time" if variant.utilization.tokens_per_s_per_gpu is None else "tokens"
