"""Comparisons under faults against bounds by hand: nine kinds of fault, six fabrics, two sizes.

One job for all: Llama 3.2 1B with ZeRO-3, which gathers its weights in the forward and again in the backward pass and
scatters gradients, on servers of 8 H100 with a leaf of their own. Bounds are closed forms of the sizes below and of the
step without the fault; none reads what the engine knows of links, routes or collectives.

    lower   no step is shorter than the bytes that a server must send, over what its NICs and uplinks have left; nor
            than on a crossbar (`ideal`) under the same fault; nor, where paths stay, than without the fault
    upper   what slows one part by a factor slows a step by no more than that factor; of traffic that avoids a slow
            cable, by what the others of its bundle have left; of hashed traffic on a dead cable, two links become one
    loss    of a job that dies: until the abort, diagnosis, repair, start and half an interval between checkpoints
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.work.scenario import load
from railyard.work.study import study

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Variant = Mapping[str, Any]

FABRICS = ("roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal")
SIZES = (96, 256)
PARAMETERS = 1_235_814_400
LAYER = 60_821_504
"""Parameters of one layer: the last one's weights are still there when the backward pass begins."""
STEP_BYTES = 2 * (3 * PARAMETERS - LAYER)
"""That all ranks gather and scatter in a step, 2 bytes each."""
SEQUENCE = 2048
PEAK_FLOPS = 989e12
NICS, NIC_BYTES_S = 8, 50e9
CABLE, NIC_LEFT, GPU_LEFT = 0.25, 0.3, 0.7
ABORT_S, PROCESS_S = 4.096e-6 * 2**20 * 7, 5.0
RESTART_S = 600 + 1.3158 * 86_400 + 374 + 900
FLAPS, FLAP_S = 100, 0.02
REROUTE_S = {"roce": 0.1, "infiniband": 1e-3, "spectrum-x": 1e-3, "uec": 1e-4, "scheduled": 1e-6, "ideal": 0.0}
RETRY_S = 4.096e-6 * 2**10
SLACK = 1e-6
"""Rounding of times to picoseconds."""

KINDS: Mapping[str, dict[str, Any]] = {
    "slow cable": {"kind": "degrade-link", "cable": "leaf 0 - spine 0", "factor": "25 %"},
    "dead cable": {"kind": "link-down", "cable": "leaf 0 - spine 0"},
    "dead bundle": {"kind": "link-down", "cable": "leaf 0 - spine 0", "cables": "all"},
    "dead spine": {"kind": "switch-down", "switch": "spine 0"},
    "flapping cable": {
        "kind": "link-down", "cable": "leaf 0 - spine 0", "at": "1 ms", "for": "20 ms", "every": "10 s", "times": FLAPS
    },
    "slow NIC": {"kind": "degrade-link", "cable": "server 1 nic 3 - leaf 1", "factor": "30 %"},
    "dead NIC": {"kind": "nic-down", "host": 1, "nic": 3},
    "dead host": {"kind": "host-down", "host": 1, "at": "2 h"},
    "slow GPU": {"kind": "slow-accelerator", "rank": 11, "factor": "70 %"},
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One fabric under one fault.

    Attributes:
        accelerators: Of the job.
        fault: One of `KINDS`.
        fabric: Which.
        place: In the ranking, from 1; None for the bound.
        leads: Whether the verdict says that it leads.
        hit: Links of its tier that the fault hits, and how many the tier has.
        outcome: Of the job.
        healthy_s: A step without the fault.
        step_s: A step with it, after a death that the job survives.
        lost_s: Lost once.
        low, high: Bounds of the step, or of the loss where the job dies or its cable flaps.
        why: Whence the bounds.
        problems: What is outside of them.
    """

    accelerators: int
    fault: str
    fabric: str
    place: int | None
    leads: bool
    hit: str
    outcome: str
    healthy_s: float
    step_s: float
    lost_s: float
    low: float
    high: float
    why: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Bounds:
    dies: bool
    low: float
    high: float
    why: str


def compared(
    only: str = "", sizes: Sequence[int] = SIZES, *, progress: Callable[[str, float], None] = lambda _what, _share: None
) -> list[Row]:
    """Runs every comparison and holds it against its bounds.

    Args:
        only: Kinds of fault whose name contains this.
        sizes: Accelerators.
        progress: Told what is being done, and its share from 0 to 1.
    """
    cases = [(size, kind) for size in sizes for kind in KINDS if only in kind]
    rows: list[Row] = []
    for number, (size, kind) in enumerate(cases):
        progress(f"{kind}, {size} GPUs", number / len(cases))
        result = study.run(load.from_values(scenario(size, KINDS[kind])), searched=False).result.plain()
        rows += _rows(size, kind, result)
    return rows


def scenario(accelerators: int, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison of all fabrics under a fault."""
    return {
        "name": "faults",
        "cluster": {
            "accelerators": accelerators,
            "server": "hgx-h100",
            "back_end": {
                "topology": {"kind": "leaf-spine", "oversubscription": "1:1", "ports_per_leaf": NICS},
                "fabric": "roce",
            },
        },
        "workload": {
            "training": {
                "model": "llama-3.2-1b",
                "tokens": "100 B",
                "global_batch": accelerators,
                "sequence": SEQUENCE,
                "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "none"},
            }
        },
        "compare": {"vary": {"fabric": list(FABRICS)}},
        "faults": [dict(fault)],
    }


def _rows(accelerators: int, kind: str, result: Mapping[str, Any]) -> Iterator[Row]:
    verdict, by_name = result["verdict"], {one["name"]: one for one in result["variants"]}
    for name, one in by_name.items():
        (fault,) = one["faults"]
        bounds = _BY_HAND[kind](_Hand.of(accelerators, one))
        step_s = one["step"]["samples"][0]
        found = (one, bounds, fault["lost_s"], by_name["ideal"])
        yield Row(
            accelerators=accelerators,
            fault=kind,
            fabric=name,
            place=None if one["bound"] else verdict["ranking"].index(name) + 1,
            leads=verdict["leading"] == name,
            hit=", ".join(f"{row['links']} of {row['of']} {row['tier']}" for row in fault["tiers"]) or "none",
            outcome=one["outcome"],
            healthy_s=one["step"]["without_faults_s"],
            step_s=step_s,
            lost_s=fault["lost_s"],
            low=bounds.low,
            high=bounds.high,
            why=bounds.why,
            problems=(*_problems(kind, *found), *_misplaced(one, verdict, by_name)),
        )


def _problems(kind: str, one: Variant, bounds: _Bounds, lost_s: float, ideal: Variant) -> Iterator[str]:
    """What a variant has outside of its bounds."""
    died = one["outcome"] == "died"
    if died != bounds.dies:
        yield f"{one['outcome']}"
        return
    value = lost_s if died or kind == "flapping cable" else one["step"]["samples"][0]
    if not bounds.low * (1 - SLACK) <= value <= bounds.high * (1 + SLACK):
        yield f"{value:.6g} s is outside of {bounds.low:.6g} to {bounds.high:.6g} s"
    if (
        not died
        and ideal["outcome"] == "finished"
        and one["step"]["samples"][0] < ideal["step"]["samples"][0] * (1 - SLACK)
    ):
        yield "its step is shorter than on a crossbar under the same fault"


def _misplaced(one: Variant, verdict: Mapping[str, Any], by_name: Mapping[str, Variant]) -> Iterator[str]:
    """What is wrong with its place: those that die come last, of others the one whose tokens cost less comes first."""
    if one["bound"]:
        if one["name"] in verdict["ranking"] or verdict["leading"] == one["name"]:
            yield "a bound is ranked"
        return
    place = verdict["ranking"].index(one["name"])
    if place and _key(by_name[verdict["ranking"][place - 1]]) > _key(one):
        yield f"ranked behind {verdict['ranking'][place - 1]}"
    if verdict["leading"] == one["name"] and one["outcome"] != "finished":
        yield "it leads, and its job dies"


def _key(one: Variant) -> tuple[bool, float]:
    return one["outcome"] != "finished", float(one["cpmt"]["typical"])


def page(rows: Sequence[Row]) -> str:
    """Markdown: a table a size, with the bounds of every row."""
    inside = sum(not row.problems for row in rows)
    lines = [HEAD.format(inside=inside, all=len(rows))]
    for size in dict.fromkeys(row.accelerators for row in rows):
        mine = [row for row in rows if row.accelerators == size]
        fabrics = list(dict.fromkeys(row.fabric for row in sorted(mine, key=lambda row: row.fabric)))
        lines += [f"\n## {size} GPUs\n", f"| fault | {' | '.join(fabrics)} |", "|---" * (len(fabrics) + 1) + "|"]
        for kind in dict.fromkeys(row.fault for row in mine):
            found = {row.fabric: cell(row) for row in mine if row.fault == kind}
            lines.append(f"| {kind} | {' | '.join(found.get(name, '') for name in fabrics)} |")
    return "\n".join(lines) + "\n"


HEAD = """# Comparisons under faults

Written by `railyard validate faults --page docs/validation/faults.md`: one data-parallel job (Llama 3.2 1B, ZeRO-3,
servers of 8 H100 with a leaf of their own) on six fabrics, whose spines differ as their switches do. Each comparison
ranks the fabrics under one fault. The bounds are worked out by hand from the bytes of the job, the links that are left
and the step without the fault; `validation/src/railyard_validation/faults.py` has each formula. A job that dies, or
whose cable flaps, is judged by what it loses once. `ideal` is a bound: it has no place, and no fabric's step may be
shorter than its own under the same fault.

**{inside} of {all} rows are inside of their bounds.** A row is outside of them too where its place is wrong: a job that
dies comes after all that finish, and of others the one whose tokens cost less comes first.

A cell has the place, the step or what is lost once, its bounds, and the links hit of its tier. The bounds come from the
cables or spines that are left (*slow* and *dead cable*, *dead bundle*, *dead spine*; all traffic may wait for a slow
cable where flows are not moved), from the tries until routes know of a flapping cable and one step, from the bytes of
the job at 30 % of a NIC, from the whole step at 70 % of a GPU, and from the times of recovery where the job dies.
"""


def cell(row: Row) -> str:
    """Place, what came out, its bounds and the links hit."""
    lost = row.outcome == "died" or row.fault == "flapping cable"
    unit, scale = ("s", 1.0) if lost else ("ms", 1e3)
    place = "bound" if row.place is None else f"{row.place}{' (leads)' if row.leads else ''}"
    verb = "dies, loses " if row.outcome == "died" else "loses " if lost else ""
    value = f"{verb}{scale * (row.lost_s if lost else row.step_s):,.6g} {unit}"
    problems = f"<br>**{'; '.join(row.problems)}**" if row.problems else ""
    return f"{place}: {value}<br>{scale * row.low:,.6g} to {scale * row.high:,.6g}<br>{row.hit}{problems}"


@dataclass(frozen=True)
class _Hand:
    """What is known of one variant without its fault, and bounds under each kind of fault.

    Attributes:
        name: Of the fabric.
        healthy_s: A step.
        nic_s: In which a NIC can carry its part of a step's bytes.
        spines: That the network has.
        bundle: Cables from a leaf to one of them.
    """

    name: str
    healthy_s: float
    nic_s: float
    spines: int
    bundle: int

    @classmethod
    def of(cls, accelerators: int, one: Variant) -> _Hand:
        servers = accelerators // NICS
        spines = sum(row["count"] for row in one["topology"]["switches"] if row["role"] == "spine")
        cables = sum(row["links"] for row in one["network"]["tiers"] if row["name"] == "leaf-spine") // 2
        nic_s = STEP_BYTES * (servers - 1) / servers / NICS / NIC_BYTES_S
        return cls(one["name"], one["step"]["without_faults_s"], nic_s, spines, cables // servers // spines)

    def dies(self, abort_s: float, why: str) -> _Bounds:
        """A loss: the part that is not known by hand is the step that hangs."""
        lost_s = abort_s + RESTART_S
        return _Bounds(True, lost_s, lost_s * (1 + 1e-4) + self.healthy_s, why)

    def fewer(self, left: float, why: str) -> _Bounds:
        """With a share of a bundle or of all spines left."""
        if self.name == "ideal":
            return _Bounds(False, self.healthy_s, self.healthy_s, "a crossbar has no spines")
        cut_s = self.nic_s if self.name == "scheduled" else self.nic_s / left  # cells have links to spare
        if self.name == "roce":
            return _Bounds(False, cut_s, 2 * self.healthy_s / left, f"{why}; hashed anew: at most two links on one")
        return _Bounds(False, max(self.healthy_s, cut_s), self.healthy_s / left, why)

    def slow_cable(self) -> _Bounds:
        left = self.bundle - 1 + CABLE
        found = self.fewer(left / self.bundle, f"{left:g} of {self.bundle} cables are left")
        if self.name not in ("roce", "spectrum-x"):
            return found
        # Hashes do not see a slow cable; switches that look at their own queues move a part off it.
        low = max(self.healthy_s, found.low)
        return _Bounds(False, low, self.healthy_s / CABLE, "all traffic may wait for the slow cable")

    def dead_cable(self) -> _Bounds:
        return self.fewer((self.bundle - 1) / self.bundle, f"{self.bundle - 1} of {self.bundle} cables are left")

    def dead_spine(self) -> _Bounds:
        if self.spines == 1 and self.name != "ideal":
            return self.dies(ABORT_S, "no other spine")
        return self.fewer((self.spines - 1) / self.spines or 1.0, f"{self.spines - 1} of {self.spines} spines are left")

    def flapping_cable(self) -> _Bounds:
        stall_s = RETRY_S * math.ceil(min(FLAP_S, REROUTE_S[self.name]) / RETRY_S) + self.healthy_s
        return _Bounds(False, 0.0, FLAPS * stall_s, "each time tries until routes know or it is back, and a step")

    def slow_nic(self) -> _Bounds:
        least_s = self.nic_s / NIC_LEFT
        why = f"{1e3 * self.nic_s:.1f} ms of bytes at {100 * NIC_LEFT:.0f} % of a NIC"
        return _Bounds(False, max(self.healthy_s, least_s), self.healthy_s / NIC_LEFT, why)

    def slow_gpu(self) -> _Bounds:
        least_s = 6 * PARAMETERS * SEQUENCE / PEAK_FLOPS / GPU_LEFT
        return _Bounds(False, max(self.healthy_s, least_s), self.healthy_s / GPU_LEFT, "all of the step at 70 %")


_BY_HAND: Mapping[str, Callable[[_Hand], _Bounds]] = {
    "slow cable": _Hand.slow_cable,
    "dead cable": _Hand.dead_cable,
    "dead bundle": _Hand.dead_spine,
    "dead spine": _Hand.dead_spine,
    "flapping cable": _Hand.flapping_cable,
    "slow NIC": _Hand.slow_nic,
    "dead NIC": lambda hand: hand.dies(ABORT_S, "no other way for its rank"),
    "dead host": lambda hand: hand.dies(PROCESS_S, "its processes are gone"),
    "slow GPU": _Hand.slow_gpu,
}
