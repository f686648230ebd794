"""What sentences of a result claim, taken apart again and held against the numbers beside them.

Nothing here calls what forms the sentences: claims are found in the text, numbers in the plain result.
"""

from __future__ import annotations

import re
from typing import Any

_PERCENT = re.compile(r"(-?[\d.]+) %")
_NEVER = re.compile(
    r"\bnan\b|\binf\b|(?<!ZeRO)-0(\.0+)? |e-\d\d|(?<![\d.])0(\.0+)? GPU-seconds|\bNone\b(?! had to)"
    r"|\b0\.0 ?% (more|less|longer)|[:,] ?[.,;]"
)
"""What no sentence for people may contain."""

_DIGITS = 0.006
"""Half of the last of three digits, as a share."""
_ROUNDED = 0.0006
"""Half of the last digit of a percentage, and a little."""


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
    if "network tax by cause" in row:
        cells = [row["network tax by cause"], row["scale-up tax by cause"], *row["other waits"].split(",")]
        shares = [float(_PERCENT.search(part).group(1)) for part in cells if _PERCENT.search(part)]
        shares.append(100 * variant["tax"]["rest"].get("compute", 0.0))
        if abs(sum(shares) - 100) > 0.051 * len(shares) + 0.15:  # parts below 0.05 % are not printed
            found.append(f"shares add up to {sum(shares):.1f} %: {cells}")
        found += [fault for cell in cells[:2] for fault in _causes(cell)]
    step = variant.get("step")
    # a fault in mid-run makes some steps longer than every sample of steady ones
    if step and not min(step["samples"]) <= step["seconds"] <= max(*step["samples"], step.get("longest_s", 0.0)):
        found.append(f"step outside its seeds: {step['seconds']} of {step['samples']}")
    for key in ("cpmt", "power", "capex"):
        found += _bands(key, variant.get(key))
    return found


def _causes(cell: str) -> list[str]:
    """Faults of causes in brackets behind their sum."""
    inner = re.search(r"([\d.]+) % \((.*)\)", cell)
    if not inner:
        return []
    named = [float(number) for number in re.findall(r" ([\d.]+)(?:,|$)", inner.group(2))]
    whole = abs(sum(named) - float(inner.group(1))) <= 0.051 * (len(named) + 1) + 0.1
    return [] if whole else [f"causes do not add up: {cell}"]


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
    for factor, name, gain in re.findall(r"([\d.]+) x ([\w -]+?) shortens the step by ([\d.]+) %", text):
        true = gains.get((factor, name))
        if true is None or abs(true - float(gain) / 100) > _ROUNDED:
            found.append(f"{name}: {gain} % but tried {true}")
        elif true < max(gains.values()) - 1e-12:
            found.append(f"{name} is not the best of {gains}")
    if "No single resource" in text and trials and max(one["gain"] for one in trials) >= 0.01:
        found.append(f"none helps, but {trials[0]}")
    loss = re.search(r"The largest single loss is ([\w' -]+), ([\d.]+) % of the step", text)
    if loss:
        most = max(_losses(variant["tax"]))
        if abs(most - float(loss.group(2)) / 100) > _ROUNDED:
            found.append(f"largest loss {loss.group(2)} % but {most:.3%}")
    return found


def _losses(tax: dict[str, Any]) -> list[float]:
    """Shares of a step that are no computation at full speed."""
    waits = [share for cause, share in tax["rest"].items() if cause != "compute"]
    both = [part for one in (tax, tax["scale_up"]) for part in (*one["exposed"].values(), one["slowed_kernels"])]
    return [*waits, *both]


def of_comparison(text: str, variants: list[dict[str, Any]]) -> list[str]:
    """Faults of the sentence that sets variants apart."""
    by_name, found = {one["name"]: one for one in variants}, []
    # the longest first: one name may end as another
    names = "|".join(map(re.escape, sorted(by_name, key=len, reverse=True)))
    said = re.findall(rf"network costs ({names}) ([\d.]+) % .*?of its tokens", text)
    said += re.findall(rf"of its tokens and ({names}) ([\d.]+) %", text)
    said += [
        (name, lost)
        for lost, name in re.findall(rf"network costs ([\d.]+) %[^;]* of the tokens of ({names})[,;]", text)
    ]
    found += [fault for name, what in said for fault in _lost(by_name[name], what)]
    gets = rf"({names})(?:, a bound with the same NICs,)? gets ([\d.]+) % more tokens out of a GPU than ({names})\."
    for more, number, less in re.findall(gets, text):
        faster = rate(by_name[more]) / rate(by_name[less]) - 1
        if abs(max(faster, 0.0) - float(number) / 100) > _ROUNDED:
            found.append(f"{number} % more tokens, but {faster:.3%}")
    for number, name in re.findall(rf"None gets more than ([\d.]+) % more tokens out of a GPU than ({names})\.", text):
        most = max(rate(one) for one in variants if not one["bound"]) / rate(by_name[name]) - 1
        if abs(most - float(number) / 100) > _ROUNDED:
            found.append(f"none more than {number} % but {most:.2%}")
    return found + _dollars(text, names, by_name)


def _dollars(text: str, names: str, by_name: dict[str, Any]) -> list[str]:
    """Faults of the verdict: who costs least, at what price, and how much more another one costs."""
    found = []
    equal = "are equal within error at|[^;]* cannot be distinguished:|[^;]* give the same answer:"
    leads = rf"^({names})(?: costs least:|[^;]* {equal}) \$([\d.]+)"
    counted = (
        rf'^\w+ variants (?:are equal within error at|cannot be distinguished:) \$([\d.]+)[^;]*, cheapest "?({names})'
    )
    said = [*re.findall(leads, text), *(row[::-1] for row in re.findall(counted, text))]
    for name, price in said:
        true, bought = by_name[name]["cpmt"]["typical"], [one for one in by_name.values() if not one["bound"]]
        if abs(true / float(price) - 1) > _DIGITS:
            found.append(f"${price} of {name}, but {true}")
        if true > min(one["cpmt"]["typical"] for one in bought) * (1 + 1e-3):
            found.append(f"{name} does not cost least")
        for other, more in re.findall(rf"; ({names}) costs ([\d.]+) % more\.", text):
            ratio = by_name[other]["cpmt"]["typical"] / true - 1
            if abs(ratio - float(more) / 100) > _ROUNDED:
                found.append(f"{other} costs {more} % more, but {ratio:.3%}")
    return found


def _lost(variant: dict[str, Any], what: str) -> list[str]:
    lost = variant["tax"]["tokens_lost"]
    return (
        [] if abs(lost - float(what) / 100) <= _ROUNDED else [f"{what} % lost to the scale-out network, but {lost:.3%}"]
    )
