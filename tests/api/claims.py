"""What sentences of a result claim, taken apart again and held against the numbers beside them.

Nothing here calls what forms the sentences: claims are found in the text, numbers in the plain result.
"""

from __future__ import annotations

import re
from typing import Any

_PERCENT = re.compile(r"(-?[\d.]+) %")
_NEVER = re.compile(
    r"\bnan\b|\binf\b|-0(\.0+)? |e-\d\d|\b0(\.0+)? GPU-seconds|\bNone\b(?! had to)"
    r"|\b0\.0 ?% (more|less|longer)|[:,] ?[.,;]"
)
"""What no sentence for people may contain."""

_NETWORK = ("bandwidth", "latency", "contention")
_WAITING = (*_NETWORK, "straggler", "data", "checkpoint")
_ROUNDED = 0.0006
"""Half of the last digit of a percentage, and a little."""


def share(variant: dict[str, Any], causes: tuple[str, ...]) -> float:
    return sum(part["share"] for part in variant["time"] if part["cause"] in causes)


def rate(variant: dict[str, Any]) -> float:
    return variant["utilization"]["tokens_per_s_per_gpu"]


def of_text(text: str) -> list[str]:
    """Faults that need no numbers."""
    found = [f"`{hit.group(0)}` in: {line}" for line in text.splitlines() for hit in _NEVER.finditer(line)]
    return found + [
        f"tabs or doubled words in: {line}" for line in text.splitlines() if re.search(r"\b(\w+) \1\b", line)
    ]


def of_row(heads: list[str], cells: list[str], variant: dict[str, Any]) -> list[str]:
    """Faults of a line of the table: shares that do not add up, bands that are none."""
    row, found = dict(zip(heads, cells, strict=True)), []
    if "exposed communication" in row:
        parts = [row["GPU utilization"], *row["exposed communication"].split(";")]
        shares = [float(_PERCENT.search(part).group(1)) for part in parts if _PERCENT.search(part)]
        if abs(sum(shares) - 100) > 0.051 * len(shares) + 0.15:  # parts below 0.05 % are not printed
            found.append(f"shares add up to {sum(shares):.1f} %: {parts}")
        inner = re.search(r"([\d.]+) % \((.*)\)", parts[1])
        if inner:
            named = [float(number) for number in re.findall(r" ([\d.]+)(?:,|$)", inner.group(2))]
            if abs(sum(named) - float(inner.group(1))) > 0.051 * (len(named) + 1) + 0.1:
                found.append(f"causes do not add up: {parts[1]}")
    step = variant.get("step")
    if step and not min(step["samples"]) <= step["seconds"] <= max(step["samples"]):
        found.append(f"step outside its seeds: {step['seconds']} of {step['samples']}")
    for key in ("cpmt", "power", "capex"):
        found += _bands(key, variant.get(key))
    return found


def _bands(where: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        if {"low", "typical", "high"} <= value.keys():
            ordered = value["low"] <= value["typical"] * (1 + 1e-9) and value["typical"] <= value["high"] * (1 + 1e-9)
            return [] if ordered else [f"{where}: {value} is no band"]
        return [fault for key, each in value.items() for fault in _bands(f"{where}.{key}", each)]
    return []


def of_headline(variant: dict[str, Any]) -> list[str]:
    """Faults of the sentence on the bottleneck, against the trials that it tells of."""
    bottleneck = variant["bottleneck"]
    text, trials, found = bottleneck["headline"], bottleneck["ranking"], []
    gains = {(f"{one['factor']:g}", one["resource"]): one["gain"] for one in trials}
    for factor, name, gain in re.findall(r"([\d.]+) x ([\w -]+?) shortens the step by ([\d.]+)%", text):
        true = gains.get((factor, name))
        if true is None or abs(true - float(gain) / 100) > _ROUNDED:
            found.append(f"{name}: {gain} % but tried {true}")
        elif true < max(gains.values()) - 1e-12:
            found.append(f"{name} is not the best of {gains}")
    if "No single resource" in text and trials and max(one["gain"] for one in trials) >= 0.01:
        found.append(f"none helps, but {trials[0]}")
    wait = re.search(r"The largest wait is ([\w ()-]+), ([\d.]+)% of the step", text)
    if wait:
        most = max((part["share"] for part in variant["time"] if part["cause"] != "compute"), default=0.0)
        total = max(share(variant, (cause,)) for cause in {part["cause"] for part in variant["time"]} - {"compute"})
        if abs(total - float(wait.group(2)) / 100) > _ROUNDED or total < most - 1e-9:
            found.append(f"largest wait {wait.group(2)} % but {total:.3%}")
    return found


def of_comparison(text: str, variants: list[dict[str, Any]]) -> list[str]:
    """Faults of the sentence that sets variants apart."""
    by_name, found = {one["name"]: one for one in variants}, []
    told = re.search(
        r"(.+?) gets ([\d.]+) % more tokens out of a GPU than (.+?): waiting for .+? (falls|rises|stays)"
        r".*? (?:from ([\d.]+) % to|at) ([\d.]+) % of the step(?:, mostly (\w+))?",
        text,
    )
    if told:
        best, worst = by_name[told.group(1)], by_name[told.group(3)]
        found += _contrast(told, best, worst)
    for name, number in re.findall(r"(\S+) costs least; none gets more than ([\d.]+) % more tokens", text):
        most = max(map(rate, variants)) / rate(by_name[name]) - 1
        if abs(most - float(number) / 100) > _ROUNDED:
            found.append(f"none more than {number} % but {most:.2%}")
        if by_name[name]["cpmt"]["typical"] > min(one["cpmt"]["typical"] for one in variants) * (1 + 1e-3):
            found.append(f"{name} does not cost least")
    return found


def _contrast(told: re.Match[str], best: dict[str, Any], worst: dict[str, Any]) -> list[str]:
    found = []
    faster = rate(best) / rate(worst) - 1
    if abs(faster - float(told.group(2)) / 100) > _ROUNDED:
        found.append(f"{told.group(2)} % more tokens, but {faster:.3%}")
    before, after = share(worst, _WAITING), share(best, _WAITING)
    printed = float(told.group(5) or told.group(6)), float(told.group(6))
    if max(abs(before - printed[0] / 100), abs(after - printed[1] / 100)) > _ROUNDED:
        found.append(f"waiting {printed} but {before:.2%}, {after:.2%}")
    moved = {"falls": printed[1] < printed[0], "rises": printed[1] > printed[0], "stays": printed[1] == printed[0]}
    if not moved[told.group(4)]:
        found.append(f"waiting {told.group(4)} from {printed[0]} % to {printed[1]} %")
    cause = told.group(7)
    if cause:
        grown = {one: share(worst, (one,)) - share(best, (one,)) for one in _WAITING}
        if grown[cause] < max(grown.values()) - 1e-9 or grown[cause] <= 0:
            found.append(f"mostly {cause}, but {grown}")
    return found
