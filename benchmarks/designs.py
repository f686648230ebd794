"""Steps short of network by `flow`, by `analytic` and by the closed form of designs; prints a table.

    python benchmarks/designs.py [JOB ...]

The mean over 4 draws where flows are hashed, sequences of 4,096, four servers a leaf.
"""

from __future__ import annotations

import sys

import numpy as np

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import Placement
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.engine.fluid import FluidEngine
from railyard.graph import Job
from railyard.work.training import Training, profiles
from railyard.work.training.designs import DesignSite, evaluate
from railyard.work.training.graphs import build as graph_of
from railyard.work.training.graphs import hashes, redrawn
from railyard.work.training.spec import Layout

KNOWN = catalog.load()
ALONE = FluidEngine("alone", "everything alone", contention=False, left_out=())
DENSE = {"tp": 2, "pp": 2}
SPREAD = {"tp": 4, "ep": 8, "expert_tp": 4}
# Model, layout, ranks, sequences of a step, oversubscription (0: rails), fabric, placement.
CASES = {
    "Llama 3 8B, TP 2 PP 2, hashed 1:1": ("llama-3-8b", DENSE, 128, 128, 1, "roce", "packed"),
    "the same, shuffled": ("llama-3-8b", DENSE, 128, 128, 1, "roce", "scattered"),
    "hashed 4:1": ("llama-3-8b", DENSE, 128, 128, 4, "roce", "packed"),
    "hashed 4:1, shuffled": ("llama-3-8b", DENSE, 128, 128, 4, "roce", "scattered"),
    "sprayed 4:1, shuffled": ("llama-3-8b", DENSE, 128, 128, 4, "spectrum-x", "scattered"),
    "TP 1 PP 4, hashed 4:1, shuffled": ("llama-3-8b", {"tp": 1, "pp": 4}, 128, 128, 4, "roce", "scattered"),
    "TP 4 CP 4, hashed 4:1, shuffled": ("llama-3-8b", {"tp": 4, "cp": 4}, 128, 128, 4, "roce", "scattered"),
    "ZeRO-3, hashed 4:1, shuffled": ("llama-3-8b", {"zero": 3}, 128, 128, 4, "roce", "scattered"),
    "ZeRO-3, sprayed 4:1, shuffled": ("llama-3-8b", {"zero": 3}, 128, 128, 4, "spectrum-x", "scattered"),
    "Mixtral 8x7B, TP 4 PP 2 EP 8, hashed 2:1": (
        *("mixtral-8x7b", {"tp": 4, "pp": 2, "ep": 8}),
        *(128, 128, 2, "roce", "packed"),
    ),
    "the same, 2:1, shuffled": ("mixtral-8x7b", {"tp": 4, "pp": 2, "ep": 8}, 128, 128, 2, "roce", "scattered"),
    "TP 2 PP 4 EP 8, sprayed 4:1": ("mixtral-8x7b", {"tp": 2, "pp": 4, "ep": 8}, 128, 128, 4, "spectrum-x", "packed"),
    "EP 8, hashed 1:1, shuffled": ("mixtral-8x7b", {"ep": 8}, 128, 128, 1, "roce", "scattered"),
    "experts over 32 ranks, hashed 4:1, shuffled": ("mixtral-8x7b", SPREAD, 128, 128, 4, "roce", "scattered"),
    "experts over 32 ranks, sprayed 4:1, shuffled": ("mixtral-8x7b", SPREAD, 128, 128, 4, "spectrum-x", "scattered"),
    "Llama 3 70B, TP 8 PP 4, rails": ("llama-3-70b", {"tp": 8, "pp": 4}, 256, 64, 0, "roce", "packed"),
    "the same, hashed 4:1": ("llama-3-70b", {"tp": 8, "pp": 4}, 256, 64, 4, "roce", "packed"),
    "TP 4 PP 8, hashed 4:1": ("llama-3-70b", {"tp": 4, "pp": 8}, 256, 64, 4, "roce", "packed"),
}


def row(name: str) -> None:
    model, sizes, ranks, batch, ratio, fabric, place = CASES[name]
    topology = LeafSpine(oversubscription=ratio, ports_per_leaf=32) if ratio else RailOptimized()
    spec = ClusterSpec(ranks, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric)))
    cluster = build(spec, KNOWN, Placement(place, 0))
    inner = sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1)
    layout = Layout(dp=ranks // inner, global_batch=batch, **{"tp": 1, **sizes})
    software = profiles.default(KNOWN.accelerator("h100-sxm"))
    training = Training(model=KNOWN.model(model), layout=layout, seq_len=4096, software=software)
    graph = graph_of(training, cluster)
    draws = [redrawn(cluster, seed) for seed in range(4 if hashes(cluster) else 1)]
    engines = (engine.get("flow"), engine.get("analytic"), ALONE)
    steps = [[one.simulate([Job(graph)], draw).makespan_ps * 1e-12 for draw in draws] for one in engines]
    flow = float(np.mean(steps[0]))
    found = evaluate([training], [DesignSite.of(cluster)])
    others = [np.mean(steps[1]), np.mean(steps[2]), found.step.step_s[0], found.alone.step_s[0]]
    print(
        f"| {name} | {flow:.3f} | " + " | ".join(f"{100 * (each / flow - 1):+.1f} %" for each in others) + " |",
        flush=True,
    )


def main() -> None:
    print("| job | flow, s | analytic | no contention | closed form | without contention |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:] or CASES:
        row(name)


if __name__ == "__main__":
    main()
