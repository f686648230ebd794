"""Quantities of Kubernetes (`500m`, `1536Mi`, `2`) as whole numbers: CPU in thousandths, all else in units."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

from railyard.kit.errors import InputError

Requests = dict[str, int]
"""Amounts by resource; CPU in thousandths of a core."""
_TEXT = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?")
_FACTOR = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}


def amount(resource: str, quantity: object) -> int:
    """A quantity as Kueue counts it: thousandths of CPU, whole units of the others, rounded up.

    Raises:
        InputError: It is no quantity.
    """
    match = _TEXT.fullmatch(str(quantity).strip())
    if not match:
        raise InputError(
            f"no quantity of {resource}", found=repr(quantity), allowed="a number with m, k, M, G, Ki, Mi, Gi or none"
        )
    number, unit, exponent = match.groups()
    value = Decimal(number) * (Decimal(10) ** int(exponent) if exponent else _FACTOR[unit or ""])
    return int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))


def total(*parts: Requests) -> Requests:
    """The sum of several."""
    found: Requests = {}
    for part in parts:
        for resource, value in part.items():
            found[resource] = found.get(resource, 0) + value
    return found


def times(requests: Requests, count: int) -> Requests:
    """So many times as much."""
    return {resource: value * count for resource, value in requests.items()}
