"""What a variant of a serving run must look like in `result.json`, and whether its figures agree with each other.

Sums: the parts of every percentile of the first token are the percentile; requests are answered, refused or left, and
none is lost; power, capital and cost have their parts; what input and output tokens are sold for is the bill of the
hour.
Order: percentiles ascend, every band is low <= typical <= high.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from railyard.errors import Problem
from railyard.measure.checks import (
    SAME,
    Check,
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
    share,
    text,
)
from railyard.measure.serving.percentiles import LEVELS
from railyard.measure.serving.served import PARTS

_ENDS = ("low", "typical", "high")
_LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s")
_KEYS = tuple(f"{part}_s" for part in PARTS)


def _flag(key: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield Problem("true or false is wanted", key=key, found=f"{value!r}"[:80])


def _known(check: Check) -> Check:
    """An object with this check for every level that is there: all, or none where no request got so far."""

    def checked(key: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, Mapping) and not value:
            return
        yield from record(dict.fromkeys((*LEVELS, "mean"), check))(key, value)

    return checked


_NUMBERS = record(dict.fromkeys((*LEVELS, "mean"), maybe(number)))
_BAND = record(band())
_POINT: dict[str, Check] = {
    **dict.fromkeys(("rate_per_s", "goodput_per_s", "output_tokens_per_s"), number),
    **dict.fromkeys(("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s"), maybe(number)),
    "attainment": share,
    "requests": count,
    "overloaded": _flag,
}
_COST: dict[str, Check] = {
    **dict.fromkeys(("total", "input", "output", "split_input", "split_output", "usd_per_h"), _BAND),
    "rented_total": maybe(_BAND),
    "breakdown": rows({"name": text, **band()}, least=1),
    "prompt_share": share,
    "cached_share": share,
}
_SIDE = record({"accelerator": text, "accelerators": count, "busy": share})
_APART: dict[str, Check] = {
    **dict.fromkeys(("micro_batches", "micro_batches_wanted"), count),
    **dict.fromkeys(("attention", "ffn"), _SIDE),
    "waits": text,
    "network_busy": share,
}
_CACHE: dict[str, Check] = {
    **dict.fromkeys(("hit_rate", "loaded_rate", "peak_share"), share),
    "preemptions": count,
}
_REUSE: dict[str, Check] = {"pool": text, "prefix_tokens": count, "peak_bps": number, "predicted_bps": number}
_REPLICA: dict[str, Check] = {
    "pool": text,
    **dict.fromkeys(("busy", "kv_peak_share"), share),
    **dict.fromkeys(("iterations", "input_tokens", "output_tokens", "cached_tokens"), count),
}
_POOL: dict[str, Check] = {
    **dict.fromkeys(("role", "accelerator"), text),
    **dict.fromkeys(("replicas", "accelerators"), count),
    **dict.fromkeys(("prompt", "decode", "network"), share),
}
SERVING: dict[str, Check] = {
    "outcome": text,
    "requests": record(
        {
            **dict.fromkeys(("count", "done", "dropped", "unfinished"), count),
            **dict.fromkeys(("rate_per_s", "input_tokens_mean", "output_tokens_mean"), number),
            "source": text,
        }
    ),
    **dict.fromkeys(_LATENCIES, _NUMBERS),
    "ttft_parts": _known(record(dict.fromkeys(_KEYS, number))),
    "network_share": record({"ttft": _known(share), "tpot": _known(share)}),
    "slo": record(
        {
            **dict.fromkeys(("ttft_s", "tpot_s", "e2e_s"), maybe(number)),
            **dict.fromkeys(("target", "attainment"), share),
            **dict.fromkeys(("goodput_rps", "goodput_input_tokens_per_s", "goodput_output_tokens_per_s"), number),
        }
    ),
    "throughput": record(
        {
            **dict.fromkeys(("span_s", "input_tokens_per_s", "output_tokens_per_s", "per_gpu", "per_mw"), number),
            "accelerators": count,
            "per_user": maybe(number),
        }
    ),
    "kv": record({**_CACHE, "moved_rate": share, "reuse": rows(_REUSE)}),
    "replicas": rows({**_REPLICA, "loads": count, "load_s": number, "slowed": share}),
    "pools": rows({**_POOL, "apart": maybe(record(_APART))}, least=1),
    "links": rows({"name": text, "tier": text, "rate_bps": number, "utilization": share}),
    "cpmt": maybe(record(_COST)),
    "power": record(
        {
            "components": rows({"name": text, **band("_w")}, least=1),
            **dict.fromkeys(("total_w", "it_w", "provisioned_w"), _BAND),
            "data_movement_share": share,
        }
    ),
    "capex": record(
        {
            "components": rows({"name": text, **band("_usd"), "count": number}, least=1),
            **dict.fromkeys(("total_usd", "per_gpu_usd"), _BAND),
        }
    ),
    "capacity": maybe(record({"rate_per_s": number, "bounded": _flag, "points": rows(_POINT, least=1)})),
    "pareto": rows(
        {
            **dict.fromkeys(("rate_per_s", "per_user", "per_gpu", "per_usd"), number),
            **dict.fromkeys(("front", "front_usd"), _flag),
        }
    ),
}
STAGED: dict[str, Check] = {
    **SERVING,
    "kv": record(_CACHE),
    "replicas": rows(_REPLICA),
    "pools": rows(_POOL, least=1),
    "stages": listed(an_object),
}
"""Of a pipeline of stages, whose pools move no prefixes and have no sides."""


def _served(key: str, value: Any) -> Iterator[Problem]:
    staged = isinstance(value, Mapping) and "stages" in value
    yield from record(STAGED if staged else SERVING)(key, value)


SERVING_VARIANT: dict[str, Check] = {
    "name": text,
    "settings": an_object,
    "serving": _served,
    "warnings": listed(text),
    "digest": text,
}


def serving_sums(key: str, variant: Mapping[str, Any]) -> Iterator[Problem]:
    """What does not add up, or stands in the wrong order, in a variant that has every key.

    Args:
        key: Of the variant.
        variant: As it stands in the result.
    """
    serving, place = variant["serving"], f"{key}.serving"
    asked = serving["requests"]
    counted = asked["done"] + asked["dropped"] + asked["unfinished"]
    yield from equal(f"{place}.requests", "answered, refused and left requests are not all", counted, asked["count"])
    for name in _LATENCIES:
        yield from _ascending(f"{place}.{name}", serving[name])
    yield from _first_token(place, serving)
    for name, total, suffix in (("power", "total_w", "_w"), ("capex", "total_usd", "_usd")):
        own = serving[name]
        yield from _parts(f"{place}.{name}", own["components"], own[total], suffix)
    for name in ("it_w", "provisioned_w"):
        yield from ordered(f"{place}.power.{name}", serving["power"][name])
    yield from _each(f"{place}.capex", serving["capex"])
    if serving["cpmt"] is not None:
        yield from _cost(f"{place}.cpmt", serving["cpmt"], serving["slo"])


def _ascending(key: str, found: Mapping[str, float | None]) -> Iterator[Problem]:
    values = [found[name] for name in LEVELS]
    known = [value for value in values if value is not None]
    if known and (len(known) < len(values) or any(one > other for one, other in itertools.pairwise(known))):
        yield Problem("the percentiles do not ascend", key=key, found=f"{values}")


def _first_token(key: str, serving: Mapping[str, Any]) -> Iterator[Problem]:
    """Parts of every percentile, and the network's share of it: collectives and transfers over the whole."""
    for level, parts in serving["ttft_parts"].items():
        whole = serving["ttft_s"][level]
        place = f"{key}.ttft_parts.{level}"
        if whole is None:
            yield Problem("parts of a percentile that is not there", key=place)
            continue
        yield from equal(place, "the parts do not add up to the percentile", math.fsum(parts.values()), whole)
        if min(parts.values()) < -SAME * max(whole, 1e-9):
            yield Problem("a part is below zero", key=place, found=f"{dict(parts)}"[:80])
        network = parts["network_s"] + parts["transfer_s"]
        told = serving["network_share"]["ttft"][level] * whole
        yield from equal(f"{key}.network_share.ttft.{level}", "the share is not that of the parts", told, network)


def _each(key: str, capex: Mapping[str, Any]) -> Iterator[Problem]:
    """The price of one accelerator is that of all over their number, the same at each end."""
    total, each = capex["total_usd"], capex["per_gpu_usd"]
    yield from ordered(f"{key}.per_gpu_usd", each)
    for end in _ENDS:
        known = total["high"] * each[end]
        yield from equal(f"{key}.per_gpu_usd", "prices do not add up to the total", known, each["high"] * total[end])


def _parts(key: str, components: Any, total: Mapping[str, float], suffix: str) -> Iterator[Problem]:
    yield from ordered(key, total)
    for end in _ENDS:
        found = math.fsum(row[end + suffix] for row in components)
        yield from equal(key, f"the parts do not add up to the total at the {end} end", found, total[end])


def _cost(key: str, cost: Mapping[str, Any], slo: Mapping[str, Any]) -> Iterator[Problem]:
    """Each way of dividing the dollars of an hour gives them back."""
    yield from _parts(key, cost["breakdown"], cost["total"], "")
    for name in ("input", "output", "split_input", "split_output", "usd_per_h"):
        yield from ordered(f"{key}.{name}", cost[name])
    asked, answered = slo["goodput_input_tokens_per_s"], slo["goodput_output_tokens_per_s"]
    for end in _ENDS:
        ways = {
            "total": (asked + answered) * cost["total"][end],
            "input": asked * cost["input"][end],
            "output": answered * cost["output"][end],
            "split_input": asked * cost["split_input"][end] + answered * cost["split_output"][end],
        }
        for name, sold in ways.items():
            text_of = f"what tokens are sold for is not the bill of the hour at the {end} end"
            yield from equal(f"{key}.{name}", text_of, sold * 3600 / 1e6, cost["usd_per_h"][end])
