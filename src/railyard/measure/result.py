"""What `result.json` must look like (format `railyard/1`), and whether its figures agree with each other.

Shape: every key below is there, with a value of its kind; further keys are allowed. Numbers are finite. Sums: the rows
of the time decomposition add up to the step, power, capital and cost to their totals, and low <= typical <= high
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from railyard.errors import InputError, Problem

FORMAT = "railyard/1"

Check = Callable[[str, Any], Iterator[Problem]]
_SAME = 1e-6


def validate_result(result: Mapping[str, Any]) -> None:
    """Accepts a result or says everything that is wrong with it.

    Args:
        result: As `json.load` gives it.

    Raises:
        InputError: Names every key that is missing, of the wrong kind or in disagreement.
    """
    found = [*_all_finite("result", result), *_record(RESULT)("result", result)]
    if not found:
        for number, variant in enumerate(result["variants"]):
            found += _sums(f"result.variants[{number}]", variant)
    if found:
        raise InputError.many(found)


def _problem(key: str, message: str, value: object) -> Problem:
    return Problem(message, key=key, found=f"{value!r}"[:80])


def _number(key: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _problem(key, "a number is wanted", value)


def _count(key: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield _problem(key, "a count is wanted", value)


def _share(key: str, value: Any) -> Iterator[Problem]:
    wrong = list(_number(key, value))
    yield from wrong
    if not wrong and not -_SAME <= value <= 1 + _SAME:
        yield _problem(key, "a share is between 0 and 1", value)


def _text(key: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _problem(key, "text is wanted", value)


def _scalar(key: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, str | int | float):
        yield _problem(key, "a number or text is wanted", value)


def _object(key: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield _problem(key, "an object is wanted", value)


def _maybe(check: Check) -> Check:
    """The value may be null."""

    def checked(key: str, value: Any) -> Iterator[Problem]:
        if value is not None:
            yield from check(key, value)

    return checked


def _list(check: Check, *, least: int = 0) -> Check:
    def checked(key: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            yield _problem(key, "a list is wanted", value)
            return
        if len(value) < least:
            yield _problem(key, f"at least {least} entries are wanted", value)
        for number, item in enumerate(value):
            yield from check(f"{key}[{number}]", item)

    return checked


def _record(fields: Mapping[str, Check]) -> Check:
    def checked(key: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, Mapping):
            yield _problem(key, "an object is wanted", value)
            return
        for name, check in fields.items():
            if name in value:
                yield from check(f"{key}.{name}", value[name])
            else:
                yield Problem("the key is missing", key=f"{key}.{name}")

    return checked


def _rows(fields: Mapping[str, Check], *, least: int = 0) -> Check:
    return _list(_record(fields), least=least)


def _band(suffix: str = "") -> dict[str, Check]:
    return {end + suffix: _number for end in ("low", "typical", "high")}


_TASKS = _list(_list(_number, least=3))
_END = _list(_count, least=2)
_PICTURE: dict[str, Check] = {
    "tiers": _rows({"name": _text, "nodes": _rows({"label": _text, "count": _count})}),
    "edges": _rows({"from": _END, "to": _END, "links": _count, "mean": _share, "max": _share}),
}
VARIANT: dict[str, Check] = {
    "name": _text,
    "settings": _object,
    "step": _record(
        {"seconds": _number, "p50_s": _number, "p95_s": _number, "p99_s": _number, "samples": _list(_number, least=1)}
    ),
    "utilization": _record(
        {
            "gpu": _share,
            "mfu": _maybe(_share),
            "hfu": _maybe(_share),
            "tokens_per_s": _number,
            "tokens_per_s_per_gpu": _number,
            "ranks": _record({"min": _share, "p50": _share, "max": _share}),
            "per_rank": _list(_share, least=1),
        }
    ),
    "time": _rows({"cause": _text, "group": _text, "phase": _text, "seconds": _number, "share": _share}, least=1),
    "lockstep": _record({"gpu_seconds_lost_to_stragglers": _number, "events": _count}),
    "jct": _maybe(
        _record(
            {
                "tokens": _number,
                "steps": _count,
                "seconds": _number,
                "checkpoint_s": _number,
                "restart_s": _number,
                "goodput": _share,
            }
        )
    ),
    "power": _record(
        {
            "components": _rows({"name": _text, **_band("_w")}, least=1),
            "total_w": _record(_band()),
            "energy_per_step_j": _number,
            "data_movement_share": _share,
        }
    ),
    "capex": _record(
        {
            "components": _rows({"name": _text, **_band("_usd"), "count": _number}, least=1),
            "total_usd": _record(_band()),
            "per_gpu_usd": _record(_band()),
        }
    ),
    "cpmt": _record(
        {
            **_band(),
            "breakdown": _rows({"name": _text, **_band()}, least=1),
            "sensitivity": _rows(
                {
                    "parameter": _text,
                    "low_value": _scalar,
                    "high_value": _scalar,
                    "cpmt_low": _number,
                    "cpmt_high": _number,
                }
            ),
        }
    ),
    "bottleneck": _record(
        {
            "name": _text,
            "headline": _text,
            "ranking": _rows({"resource": _text, "factor": _scalar, "step_seconds": _number, "gain": _number}),
        }
    ),
    "network": _record(
        {
            "tiers": _rows(
                {
                    "name": _text,
                    "links": _count,
                    "rate_bps": _number,
                    "mean_utilization": _share,
                    "max_utilization": _share,
                    "bytes": _number,
                }
            ),
            "saturated_tier": _maybe(_text),
            "hot_links": _rows({"name": _text, "tier": _text, "utilization": _share}),
        }
    ),
    "memory": _record(
        {
            "rows": _rows(
                {
                    "stage": _scalar,
                    **{
                        f"{name}_bytes": _number
                        for name in (
                            "parameters",
                            "gradients",
                            "optimizer",
                            "activations",
                            "buffers",
                            "total",
                            "capacity",
                        )
                    },
                }
            )
        }
    ),
    "timeline": _record(
        {
            "ranks": _list(_count),
            "tracks": _rows({"rank": _count, "stream": _text, "tasks": _TASKS}),
            "labels": _rows({"phase": _text, "op": _text, "group": _text}),
        }
    ),
    "topology": _record({"kind": _text, "tiers": _list(_text), "picture": _maybe(_record(_PICTURE))}),
    "collectives": _rows(
        {
            "group": _text,
            "kind": _text,
            "size_bytes": _number,
            "count": _count,
            "algorithm": _text,
            "protocol": _text,
            "alone_s": _number,
            "mean_s": _number,
        }
    ),
}


def _is_format(key: str, value: Any) -> Iterator[Problem]:
    if value != FORMAT:
        yield Problem("this is another format", key=key, found=str(value), allowed=FORMAT)


_SOURCE: dict[str, Check] = {
    name: _scalar if name == "year" else _text for name in ("item", "field", "value", "source", "year", "confidence")
}
RESULT: dict[str, Check] = {
    "format": _is_format,
    "name": _text,
    "scenario": _object,
    "provenance": _record(
        {
            "version": _text,
            "engine": _text,
            "seed": _number,
            "digest": _text,
            "created": _text,
            "sources": _rows(_SOURCE),
            "left_out": _list(_text),
            "defaults": _list(_text),
        }
    ),
    "variants": _rows(VARIANT, least=1),
}


def _all_finite(key: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, float) and not math.isfinite(value):
        yield _problem(key, "the number is not finite", value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _all_finite(f"{key}.{name}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, item in enumerate(value):
            yield from _all_finite(f"{key}[{number}]", item)


def _sums(key: str, variant: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _time_sums(key, variant)
    for name, total, rows, suffix in (
        ("power", variant["power"]["total_w"], variant["power"]["components"], "_w"),
        ("capex", variant["capex"]["total_usd"], variant["capex"]["components"], "_usd"),
        ("cpmt", variant["cpmt"], variant["cpmt"]["breakdown"], ""),
    ):
        yield from _ordered(f"{key}.{name}", total)
        for end in ("low", "typical", "high"):
            parts = math.fsum(row[end + suffix] for row in rows)
            yield from _equal(
                f"{key}.{name}", f"the parts do not add up to the total at the {end} end", parts, total[end]
            )
    yield from _label_range(key, variant["timeline"])


def _time_sums(key: str, variant: Mapping[str, Any]) -> Iterator[Problem]:
    shares = math.fsum(row["share"] for row in variant["time"])
    yield from _equal(f"{key}.time", "the shares do not add up to the step", shares, 1.0)
    if len(variant["step"]["samples"]) == 1:
        seconds = math.fsum(row["seconds"] for row in variant["time"])
        yield from _equal(f"{key}.time", "the seconds do not add up to the step", seconds, variant["step"]["seconds"])


def _ordered(key: str, band: Mapping[str, float]) -> Iterator[Problem]:
    slack = _SAME * max(abs(band["high"]), 1.0)
    if not (band["low"] <= band["typical"] + slack and band["typical"] <= band["high"] + slack):
        found = f"{band['low']}, {band['typical']}, {band['high']}"
        yield Problem("low, typical and high are not in order", key=key, found=found)


def _equal(key: str, message: str, found: float, wanted: float) -> Iterator[Problem]:
    if abs(found - wanted) > _SAME * max(abs(wanted), abs(found)):
        yield Problem(message, key=key, found=f"{found}", allowed=f"{wanted}")


def _label_range(key: str, timeline: Mapping[str, Any]) -> Iterator[Problem]:
    labels = len(timeline["labels"])
    used = {task[2] for track in timeline["tracks"] for task in track["tasks"]}
    for label in sorted(used):
        if not 0 <= label < labels:
            yield Problem(
                "a track names a label that is not there",
                key=f"{key}.timeline",
                found=str(label),
                allowed=f"0 to {labels - 1}",
            )
