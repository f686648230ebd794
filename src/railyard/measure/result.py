"""What `result.json` must look like (format `railyard/1`), and whether its figures agree with each other.

Shape: every key below is there, with a value of its kind; further keys are allowed. Numbers are finite. The load of a
link may be above 1 where the engine leaves contention out. Sums: the rows
of the time decomposition add up to the step, power, capital and cost to their totals, and low <= typical <= high
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from railyard.errors import InputError, Problem
from railyard.measure.checks import (
    Check,
    all_finite,
    an_object,
    band,
    count,
    equal,
    listed,
    maybe,
    number,
    ordered,
    record,
    rows,
    scalar,
    share,
    text,
)
from railyard.measure.serving.result import SERVING_VARIANT, serving_sums

FORMAT = "railyard/1"


def validate_result(result: Mapping[str, Any]) -> None:
    """Accepts a result or says everything that is wrong with it.

    Args:
        result: As `json.load` gives it.

    Raises:
        InputError: Names every key that is missing, of the wrong kind or in disagreement.
    """
    found = [*all_finite("result", result), *record(RESULT)("result", result)]
    if not found:
        for place, variant in enumerate(result["variants"]):
            sums = serving_sums if "serving" in variant else _sums
            found += sums(f"result.variants[{place}]", variant)
    if found:
        raise InputError.many(found)


_TASKS = listed(listed(number, least=3))
_END = listed(count, least=2)
_PICTURE: dict[str, Check] = {
    "tiers": rows({"name": text, "nodes": rows({"label": text, "count": count})}),
    "edges": rows({"from": _END, "to": _END, "links": count, "mean": number, "max": number}),
}
VARIANT: dict[str, Check] = {
    "name": text,
    "settings": an_object,
    "step": record(
        {"seconds": number, "p50_s": number, "p95_s": number, "p99_s": number, "samples": listed(number, least=1)}
    ),
    "utilization": record(
        {
            "gpu": share,
            "mfu": maybe(share),
            "hfu": maybe(share),
            "tokens_per_s": maybe(number),
            "tokens_per_s_per_gpu": maybe(number),
            "ranks": record({"min": share, "p50": share, "max": share}),
            "per_rank": listed(share, least=1),
        }
    ),
    "time": rows({"cause": text, "group": text, "phase": text, "seconds": number, "share": share}, least=1),
    "lockstep": record({"gpu_seconds_lost_to_stragglers": number, "events": count}),
    "jct": maybe(
        record(
            {
                "tokens": number,
                "steps": count,
                "seconds": number,
                "checkpoint_s": number,
                "restart_s": number,
                "goodput": share,
            }
        )
    ),
    "power": record(
        {
            "components": rows({"name": text, **band("_w")}, least=1),
            "total_w": record(band()),
            "energy_per_step_j": number,
            "data_movement_share": share,
        }
    ),
    "capex": record(
        {
            "components": rows({"name": text, **band("_usd"), "count": number}, least=1),
            "total_usd": record(band()),
            "per_gpu_usd": record(band()),
        }
    ),
    "cpmt": maybe(
        record(
            {
                **band(),
                "breakdown": rows({"name": text, **band()}, least=1),
                "sensitivity": rows(
                    {
                        "parameter": text,
                        "low_value": scalar,
                        "high_value": scalar,
                        "cpmt_low": number,
                        "cpmt_high": number,
                    }
                ),
            }
        )
    ),
    "bottleneck": record(
        {
            "name": text,
            "headline": text,
            "ranking": rows({"resource": text, "factor": scalar, "step_seconds": number, "gain": number}),
        }
    ),
    "network": record(
        {
            "tiers": rows(
                {
                    "name": text,
                    "links": count,
                    "rate_bps": number,
                    "mean_utilization": number,
                    "max_utilization": number,
                    "bytes": number,
                }
            ),
            "saturated_tier": maybe(text),
            "hot_links": rows({"name": text, "tier": text, "utilization": number}),
        }
    ),
    "memory": record(
        {
            "rows": rows(
                {
                    "stage": scalar,
                    **{
                        f"{name}_bytes": number
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
    "timeline": record(
        {
            "ranks": listed(count),
            "tracks": rows({"rank": count, "stream": text, "tasks": _TASKS}),
            "labels": rows({"phase": text, "op": text, "group": text}),
        }
    ),
    "topology": record({"kind": text, "tiers": listed(text), "picture": maybe(record(_PICTURE))}),
    "collectives": rows(
        {
            "group": text,
            "kind": text,
            "size_bytes": number,
            "count": count,
            "algorithm": text,
            "protocol": text,
            "alone_s": number,
            "mean_s": number,
        }
    ),
}


def _variant(key: str, value: Any) -> Iterator[Problem]:
    served = isinstance(value, Mapping) and "serving" in value
    yield from record(SERVING_VARIANT if served else VARIANT)(key, value)


def _is_format(key: str, value: Any) -> Iterator[Problem]:
    if value != FORMAT:
        yield Problem("this is another format", key=key, found=str(value), allowed=FORMAT)


_SOURCE: dict[str, Check] = {
    name: scalar if name == "year" else text for name in ("item", "field", "value", "source", "year", "confidence")
}
RESULT: dict[str, Check] = {
    "format": _is_format,
    "name": text,
    "scenario": an_object,
    "provenance": record(
        {
            "version": text,
            "engine": text,
            "seed": number,
            "digest": text,
            "created": text,
            "sources": rows(_SOURCE),
            "left_out": listed(text),
            "defaults": listed(text),
        }
    ),
    "variants": listed(_variant, least=1),
}


def _sums(key: str, variant: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _time_sums(key, variant)
    for name, total, parts, suffix in (
        ("power", variant["power"]["total_w"], variant["power"]["components"], "_w"),
        ("capex", variant["capex"]["total_usd"], variant["capex"]["components"], "_usd"),
        *_priced(variant),
    ):
        yield from ordered(f"{key}.{name}", total)
        for end in ("low", "typical", "high"):
            sum_of = math.fsum(row[end + suffix] for row in parts)
            yield from equal(
                f"{key}.{name}", f"the parts do not add up to the total at the {end} end", sum_of, total[end]
            )
    yield from _label_range(key, variant["timeline"])


def _priced(variant: Mapping[str, Any]) -> list[tuple[str, Any, Any, str]]:
    """What a million tokens cost, or an hour of work that makes none."""
    if variant["cpmt"] is not None:
        return [("cpmt", variant["cpmt"], variant["cpmt"]["breakdown"], "")]
    return [("cost", variant["cost"]["usd_per_h"], variant["cost"]["breakdown"], "")] if "cost" in variant else []


def _time_sums(key: str, variant: Mapping[str, Any]) -> Iterator[Problem]:
    shares = math.fsum(row["share"] for row in variant["time"])
    yield from equal(f"{key}.time", "the shares do not add up to the step", shares, 1.0)
    if len(variant["step"]["samples"]) == 1:
        seconds = math.fsum(row["seconds"] for row in variant["time"])
        yield from equal(f"{key}.time", "the seconds do not add up to the step", seconds, variant["step"]["seconds"])


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
