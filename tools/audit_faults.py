"""Random faults in the cabling of a plan: how many the audit names, how many it invents, and how near its prices are.

    python tools/audit_faults.py --faults 200 --seed 1 --accelerators 256 --fabric infiniband

Prices of slow cables are held against `degrade-link`, the fault that scenarios have, simulated one by one. With
`--settings` as many faults more are in the files of SONiC's switches: maps, pauses, marks, headroom, frames, sessions;
their prices are held against the same cables slower by what `misconfigured`, in packets, does to the standard load.
"""

from __future__ import annotations

import argparse
import random
import statistics
from typing import TYPE_CHECKING

import settings_faults

from railyard.ask.audit.audit import audit_plan
from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.cluster.fault import DegradeLink
from railyard.cluster.network_table import DIALECTS
from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.study import compose
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from railyard.cluster.network_table import NetworkTable

KINDS = ("missing", "wrong-speed", "swapped", "mislabelled", "wrong-length")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accelerators", type=int, default=256)
    parser.add_argument("--fabric", default="infiniband")
    parser.add_argument("--settings", type=int, default=0)
    given = parser.parse_args()
    draft = scenario(given.accelerators, given.fabric)
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    dice = random.Random(given.seed)
    dialect = DIALECTS["sonic"] if given.settings else dialects(plan, 0)[0]
    built, want, slow = injected(drawn(plan, 0, dialect), dice, given.faults)
    texts, wrong = settings_faults.injected(plan, dice, given.settings) if given.settings else ({}, [])
    audit = audit_plan(built, draft, settings_faults.reports(texts))
    of_settings = [one for one in audit.findings if settings_faults.is_one(one)]
    settings_faults.compared(of_settings, wrong)
    rest = [one for one in audit.findings if not settings_faults.is_one(one)]
    said = {(one.kind, frozenset((one.a, one.b)) | frozenset(one.other or ())) for one in rest}
    print(f"faults {len(want)}  found {len(want & said)}  missed {len(want - said)}  invented {len(said - want)}")
    settings_faults.prices(draft, of_settings, wrong)
    job = prepare(draft)[0]
    graph = job.graphs.of(job.training, job.cluster)
    base = job.engine.simulate([Job(graph)], job.cluster).makespan_ps
    off = []
    for ends, number in slow.items():
        links = (int(plan.cables.link[number]), int(plan.cables.link[number]) + 1)
        faults = [DegradeLink(factor=0.25, link=link) for link in links]
        loss = 1 - base / job.engine.simulate([Job(graph)], job.cluster, faults=faults).makespan_ps
        found = next(one for one in audit.findings if frozenset((one.a, one.b)) == ends)
        if loss > 1e-6:
            off.append(abs(found.loss / loss - 1))
    if off:
        within, most = sum(one <= 0.1 for one in off), max(off)
        middle = statistics.median(off)
        print(f"prices of {len(off)} slow cables: median {middle:.2%} off, most {most:.2%}; within 10 %: {within}")


def scenario(accelerators: int, fabric: str) -> load.Draft:
    training = {
        "model": "llama-3-8b",
        "tokens": "1 B",
        "global_batch": accelerators,
        "sequence": 4096,
        "parallelism": {"tp": 1, "zero": 1, "micro_batch": 1, "recompute": "full"},
    }
    back_end = {"topology": {"kind": "leaf-spine"}, "fabric": fabric}
    cluster = {"accelerators": accelerators, "server": "hgx-h100", "back_end": back_end}
    return load.from_values({"name": "faults", "cluster": cluster, "workload": {"training": training}})


def injected(
    discovery: NetworkTable, dice: random.Random, count: int
) -> tuple[NetworkTable, set[tuple[str, frozenset[str]]], dict[frozenset[str], int]]:
    """The network with faults, what an audit has to say, and which cables are slow."""
    built, gone = discovery, set[int]()
    free = dice.sample(range(len(discovery.ports)), len(discovery.ports))
    want: set[tuple[str, frozenset[str]]] = set()
    slow: dict[frozenset[str], int] = {}
    for at in range(count):
        if not free:
            break
        number, kind = free.pop(), KINDS[at % len(KINDS)]
        before = frozenset(discovery.both_ends(number))
        if kind == "swapped":
            other = next((one for one in free if same(discovery, one, number)), None)
            if other is None:
                continue
            free.remove(other)
            built = built.exchanged([number, other])
            want.add((kind, frozenset(built.both_ends(number) + built.both_ends(other))))
            continue
        if kind == "wrong-speed":
            built = built.edited(rate_bps={number: built.rate_bps[number] // 4})
            slow[before] = number
        elif kind == "mislabelled":
            built = built.edited(ports={number: (built.ports[number][0], f"9{at:03d}")})
        elif kind == "wrong-length":
            built = built.edited(length_m={number: built.length_m[number] * 1.2 + 1})
        else:
            gone.add(number)
        want.add((kind, frozenset(built.both_ends(number))))
    return built.without(gone), want, slow


def same(discovery: NetworkTable, one: int, other: int) -> bool:
    """Whether two cables are of one tier and have no end in the same device."""
    a, b = discovery.ends[one], discovery.ends[other]
    return bool((a != b).all()) and discovery.kind[a[0]] == discovery.kind[b[0]]


if __name__ == "__main__":
    main()
