#!/usr/bin/env python3
"""Published comparisons of fabrics, each under conditions in which it comes out and in which it does not.

Usage: validation/tools/claims.py [CLAIM ...]

Prints a table a claim; see docs/explanation/claims.md. The engine is `flow`. One core takes a few minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import railyard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCATTERED = {"accelerators": 64, "server": "hgx-h100", "placement": "scattered"}
DENSE = {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "none"}
EXPERTS = {"tp": 2, "ep": 8, "zero": 1, "micro_batch": 1}
"""Experts over two servers."""

PAIR = {"name": "roce", "source_port": "pair-of-ports"}
ROCE = {
    "a path a pair of NICs": PAIR,
    "as the library opens them": {"name": "roce"},
    "4 queue pairs": {"name": "roce", "qps": 4},
    "16 queue pairs": {"name": "roce", "qps": 16},
}


def variant(
    fabric: Any, *, over: str = "1:1", model: str = "llama-3-8b", parallelism: Any = DENSE, repeat: int = 3, **more: Any
) -> dict[str, Any]:
    """The only variant of a training step."""
    cluster = {
        **SCATTERED,
        "back_end": {
            "topology": {"kind": "leaf-spine", "oversubscription": over, "ports_per_leaf": 16},
            "fabric": fabric,
        },
        **more,
    }
    training = {"model": model, "sequence": 2048, "parallelism": parallelism}
    scenario = {
        "name": "claim",
        "cluster": cluster,
        "workload": {"training": {**training, "global_batch": max(64, cluster["accelerators"])}},
        "repeat": repeat,
        "jitter": {"law": "none"},
    }
    plain: dict[str, Any] = railyard.run(scenario, out=None).result.plain()["variants"][0]
    return plain


def step_s(*given: Any, **more: Any) -> float:
    """Its step."""
    return float(variant(*given, **more)["step"]["p50_s"])


def jct() -> Iterator[str]:
    """DriveNets: 10 to 30 % shorter jobs than on Ethernet with ECMP."""
    for over in ("1:1", "2:1"):
        for rate in ("400 Gb/s", "100 Gb/s"):
            link = {"link_rate": rate}
            scheduled = step_with("scheduled", over, link)
            cells = [f"{1 - scheduled / step_with(fabric, over, link):+.1%}" for fabric in ROCE.values()]
            yield f"| {over}, {rate} | " + " | ".join(cells) + " |"


def step_with(fabric: Any, over: str, link: dict[str, str]) -> float:
    """A step on NICs of another rate."""
    topology = {"kind": "leaf-spine", "oversubscription": over, "ports_per_leaf": 16}
    return step_s(fabric, back_end={"topology": topology, "fabric": fabric, **link})


def bandwidth() -> Iterator[str]:
    """NVIDIA: Spectrum-X 1.6 times the bandwidth of Ethernet with ECMP."""
    for work, parallelism, model in (
        ("rings (ZeRO-3)", DENSE, "llama-3-8b"),
        (
            "all-to-alls (experts)",
            {"tp": 1, "ep": 8, "zero": 1, "micro_batch": 1, "recompute": "none"},
            "mixtral-8x7b",
        ),
    ):
        kinds = {"model": model, "parallelism": parallelism}
        spectrum = exposed_s(variant("spectrum-x", **kinds))
        cells = [f"{exposed_s(variant(fabric, **kinds)) / spectrum:.2f}" for fabric in ROCE.values()]
        yield f"| {work} | " + " | ".join(cells) + " |"


def exposed_s(found: dict[str, Any]) -> float:
    """Mean seconds of the collective on which most time goes."""
    row = max(found["collectives"], key=lambda one: one["mean_s"] * one["times"])
    return float(row["mean_s"])


def parity() -> Iterator[str]:
    """Meta: RoCE and InfiniBand alike at 24,576 GPUs."""
    for gpus in (64, 256):
        size = {"accelerators": gpus}
        best = step_s("infiniband", **size)
        cells = [f"{step_s(fabric, **size) / best - 1:+.1%}" for fabric in ROCE.values()]
        yield f"| {gpus} | " + " | ".join(cells) + " |"


def rails() -> Iterator[str]:
    """Rail-only: 37 to 75 % less of the network's cost at the same speed."""
    for name, parallelism, model in (
        ("dense, TP 8", {"tp": 8, "zero": 1, "micro_batch": 1}, "llama-3-8b"),
        ("experts over servers", EXPERTS, "mixtral-8x7b"),
    ):
        found = {}
        for kind in ("rail-only", "rail-optimized", "leaf-spine"):
            end = {"topology": {"kind": kind}, "fabric": "infiniband"}
            found[kind] = variant("", accelerators=256, back_end=end, model=model, parallelism=parallelism, repeat=1)
        only = found["rail-only"]
        for kind in ("rail-optimized", "leaf-spine"):
            slower = only["step"]["p50_s"] / found[kind]["step"]["p50_s"] - 1
            saved = 1 - network_usd(only) / network_usd(found[kind])
            yield f"| {name}, against {kind} | {saved:+.0%} | {slower:+.1%} |"


def network_usd(found: dict[str, Any]) -> float:
    """Typical price of switches, optics and cables."""
    parts = found["capex"]["components"]
    return sum(float(row["typical_usd"]) for row in parts if row["name"] in {"switches", "optics and cables"})


CLAIMS: dict[str, Callable[[], Iterator[str]]] = {
    "jct": jct,
    "bandwidth": bandwidth,
    "parity": parity,
    "rails": rails,
}


def main() -> None:
    for name in sys.argv[1:] or CLAIMS:
        print(f"{name}: {CLAIMS[name].__doc__}", flush=True)
        for line in CLAIMS[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
