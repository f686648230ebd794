"""Fabrics as they are bought: real ports, the ratio that was asked for, a tuned default, and credits over distance."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build, notes_of
from railyard.cluster.fabric import fabrics
from railyard.cluster.topology import LeafSpine, from_mapping
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard_validation.trials.trial import Output

BREAKOUT = (1, 2, 4, 8)
"""Ports into which one port of a switch can be broken out."""

ROUNDING = 0.005


def spec(random: np.random.Generator) -> dict[str, Any]:
    """A random topology."""
    kind = str(random.choice(["leaf-spine", "leaf-spine", "rail-optimized", "three-tier", "dual-plane", "multi-site"]))
    ratio = {"oversubscription": f"{float(random.choice([1.5, 2.5, 3, 3, 5, 7])):g}:1"}
    if kind == "dual-plane":
        return {"kind": kind, "planes": int(random.choice([2, 3, 4, 5])), "inner": {"kind": "leaf-spine", **ratio}}
    if kind == "multi-site":
        return {"kind": kind, "sites": 2, "inner": {"kind": "leaf-spine", **ratio}}
    rate = {"uplink_rate": f"{int(random.choice([200, 300, 400, 800]))} Gb/s"} if random.random() < 0.4 else {}
    return {"kind": kind, **ratio, **rate}


def port_rates(random: np.random.Generator, _: Path) -> Case:
    """A network has ports that its switches have, or is refused; its ratio is the stated one, or is reported."""
    wanted = spec(random)
    fabric = str(random.choice(["roce", "infiniband", "spectrum-x", "scheduled"]))
    servers = 2 * int(random.integers(8, 80))

    def judge(_: object) -> Iterator[str]:
        known = catalog.load()
        try:
            network = NetworkSpec(from_mapping(wanted), FabricSpec(fabric))
            machine = build(ClusterSpec(8 * servers, "hgx-h100", network), known)
        except InputError:
            return
        plan = machine.plans["back_end"]
        wiring = plan.wiring
        for group in wiring.groups:
            box = plan.switches[group.box]
            mine = (wiring.source >= group.first) & (wiring.source < group.first + group.count)
            for rate in np.unique(wiring.line_bps[mine]):
                if not any(abs(rate * k / box.port_rate_bps - 1) < 1e-6 for k in BREAKOUT):
                    yield f"{box.name} has no port of {rate / 1e9:g} Gb/s"
        asked = float(json.dumps(wanted).split('oversubscription": "')[1].split(":")[0])
        built = machine.back_end.wiring.oversubscription().get("leaf-spine", asked)
        if abs(built / asked - 1) > ROUNDING:
            said = [float(found) for words in notes_of(machine) for found in re.findall(r"(\d+(?:\.\d+)?):1", words)]
            if not any(abs(found / built - 1) < ROUNDING for found in said):
                yield f"asked for {asked:g}:1, built {built:.3f}:1, and no note says so"

    return Case(f"{servers} servers, {fabric}, {json.dumps(wanted)}", (), judge)


OPERATORS = ("Meta", "Oracle", "OCI", "Microsoft", "Azure", "ByteDance", "Alibaba", "Google", "CoreWeave")


def roce_default(random: np.random.Generator, folder: Path) -> Case:
    """RoCE without a word about tuning is RoCE as an operator tunes it; as delivered it has another name."""
    accelerators = int(random.choice([64, 96, 128]))
    server = str(random.choice(["hgx-h100", "hgx-h200"]))
    scenario = {
        "name": "trial",
        "cluster": {
            "accelerators": accelerators,
            "server": server,
            "placement": "scattered",
            "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 16}, "fabric": "roce"},
        },
        "workload": {
            "training": {
                "model": "llama-3-8b",
                "tokens": "100 B",
                "global_batch": accelerators,
                "sequence": int(random.choice([2048, 4096])),
                "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1},
            }
        },
        "compare": {
            "variants": [
                {"name": "default"},
                {"name": "one", "set": {"fabric.qps": 1}},
                {"name": "sixteen", "set": {"fabric.qps": 16}},
                {"name": "untuned", "set": {"fabric": "roce-untuned"}},
            ]
        },
    }
    (folder / "trial.yaml").write_text(json.dumps(scenario), encoding="utf-8")

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        found = {one["name"]: one for one in outputs[0].data["variants"]}
        step = {name: one["step"]["seconds"] for name, one in found.items()}
        if step["default"] > 1.25 * step["sixteen"]:
            yield f"the default takes {step['default']:.3f} s, sixteen queue pairs {step['sixteen']:.3f}"
        if step["one"] < step["default"] * 0.999:
            yield "one queue pair is faster than the default"
        if abs(step["untuned"] / step["one"] - 1) > 0.02:
            yield f"untuned {step['untuned']:.3f} s is not one queue pair {step['one']:.3f}"
        source = fabrics.get("roce").sources["qps"].source
        if fabrics.get("roce").qps < 2 or not any(name in source for name in OPERATORS):
            yield f"{fabrics.get('roce').qps} queue pairs by default, by no named operator: {source}"

    return Case(f"{accelerators} x {server}", (("run", "trial.yaml", "--json"),), judge)


def hashed(draw: np.random.Generator, flows: int, links: int, racks: int) -> float:
    """Rate of the slowest of `flows` a rack over that without collisions: the mean over draws."""
    found = []
    for _ in range(4000):
        most = max(int(np.bincount(draw.integers(0, links, flows)).max()) for _ in range(racks))
        found.append(min(1.0, flows / NICS / most))  # a flow has NICS / flows of a link's rate
    return float(np.mean(found))


NICS = 8
"""NICs of the server whose rings leave a rack."""


def queue_pairs(random: np.random.Generator, _: Path) -> Case:
    """Rings over racks of two servers: what a hash onto the uplinks takes from them is what balls in bins leave."""
    racks, links = int(random.choice([4, 6, 8])), int(random.choice([16, 18, 24]))
    pairs = int(random.choice([1, 2, 4]))
    opened = int(random.choice([1, 2]))

    def judge(_: object) -> Iterator[str]:
        topology = LeafSpine(ports_per_leaf=16, oversubscription=16 / links, spines=links)
        found = []
        for number in range(16):
            network = NetworkSpec(topology, FabricSpec("roce", {"qps": pairs}), seed=number)
            machine = build(ClusterSpec(16 * racks, "hgx-h100", network), catalog.load())
            ideal = build(
                ClusterSpec(16 * racks, "hgx-h100", NetworkSpec(topology, FabricSpec("spectrum-x"))), catalog.load()
            )
            took = [ring_us(one, 16 * racks, opened) for one in (ideal, machine)]
            found.append(took[0] / took[1])
        law = hashed(np.random.default_rng(1), NICS * opened * pairs, links, racks)
        if abs(float(np.mean(found)) - law) > 0.10:
            yield f"{np.mean(found):.2f} of the rate is left, the law leaves {law:.2f}"

    return Case(f"{racks} racks, {links} uplinks, {opened} connections of {pairs} queue pairs", (), judge)


def ring_us(machine: Any, ranks: int, opened: int) -> float:
    """A large ring all-reduce with so many connections a NIC."""
    from railyard.collective import CollectivePolicy, lower_collectives
    from railyard.graph import Communicators

    everyone = Communicators.of([range(ranks)])
    request = (np.zeros(1, int), np.full(1, CollectiveKind.ALL_REDUCE), np.array([8 << 30]), np.ones(1, int))
    policy = CollectivePolicy(algorithm={"all-reduce": "ring"}, connections=opened)
    return float(lower_collectives(machine, everyone, request, policy=policy).alone_ps[0] / 1e6)


def distance(random: np.random.Generator, folder: Path) -> Case:
    """A scheduled fabric over sites: how its credits cross is not public, so both ways are shown."""
    far = int(random.choice([20, 40, 80, 160, 320]))
    accelerators = int(random.choice([64, 96, 128]))
    scenario = {
        "name": "trial",
        "cluster": {
            "accelerators": accelerators,
            "server": "hgx-h100",
            "back_end": {
                "topology": {
                    "kind": "multi-site",
                    "sites": 2,
                    "distance": f"{far} km",
                    "oversubscription": f"{int(random.choice([2, 4]))}:1",
                    "inner": "leaf-spine",
                },
                "fabric": "scheduled",
            },
        },
        "workload": {
            "training": {
                "model": "llama-3-8b",
                "tokens": "1 T",
                "global_batch": accelerators,
                "sequence": 8192,
                "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1},
            }
        },
    }
    (folder / "trial.yaml").write_text(json.dumps(scenario), encoding="utf-8")

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        words = json.dumps(outputs[0].data).lower()
        if not re.search(r"credit[^\"]*(end to end|egress)[^\"]*(border|site)", words):
            yield "no word on the two ways in which credits may cross"
        step = outputs[0].data["variants"][0]["step"]["seconds"]
        other = outputs[1].data["variants"][0]["step"]["seconds"]
        if not other < step:
            yield f"credits that end at a site's border do not help: {step} and {other} s"
        if not any(shown in words for shown in (f"{1e3 * other:.3g} ms", f"{other:.3g} s", f"{other:.4g} s")):
            yield f"the other scheme's {other:.4g} s is not in the result"

    runs = (("run", "trial.yaml", "--json"), ("run", "trial.yaml", "--json", "--set", "fabric.credits=site"))
    return Case(f"{accelerators} H100, {far} km", runs, judge)


trials.add("port-rates", Trial("port-rates", "Real ports only; the ratio as asked, or reported.", port_rates))
trials.add("roce-default", Trial("roce-default", "RoCE is tuned unless its name says otherwise.", roce_default))
trials.add("queue-pairs", Trial("queue-pairs", "Rings lose what balls in bins leave.", queue_pairs))
trials.add("credit-schemes", Trial("credit-schemes", "A scheduled fabric shows both credit schemes.", distance))
