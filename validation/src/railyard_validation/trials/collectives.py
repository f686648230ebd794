"""Collectives beyond the logs: SHARP's gain, the library's choice, and what an all-to-all gets out of its NICs.

These are questions about one collective, so the judges ask the library directly; no command prints one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from railyard import catalog
from railyard.cluster import Cluster, ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import topologies
from railyard.collective import CollectivePolicy, lower_collectives
from railyard.graph import CollectiveKind, Communicators
from railyard.kit.errors import InputError
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard_validation.trials.trial import Output

NCCL = ("tree", "ring", "nvls", "nvls-tree", "nvls-sharp", "collnet-direct", "collnet-chain", "pat")
MIB = 1 << 20
STEP = 1.25
"""Between neighbouring sizes of a curve."""


def cluster(server: str, ranks: int, fabric: str, topology: str = "rail-optimized", **own: object) -> Cluster:
    """A cluster of `ranks` accelerators."""
    network = NetworkSpec(topologies.get(topology)(), FabricSpec(fabric, own))
    return build(ClusterSpec(ranks, server, network), catalog.load())


def times_us(
    machine: Cluster, ranks: int, kind: CollectiveKind, sizes: list[int], algorithm: str | None = None
) -> list[float]:
    """Time alone of one collective of the first `ranks`, at each size."""
    word = kind.name.lower().replace("_", "-")
    policy = CollectivePolicy(algorithm={word: algorithm} if algorithm else {})
    everyone = Communicators.of([range(ranks)])
    count = len(sizes)
    request = (np.zeros(count, int), np.full(count, kind), np.array(sizes), np.ones(count, int))
    alone_ps = lower_collectives(machine, everyone, request, policy=policy).alone_ps
    return [float(time) / 1e6 for time in alone_ps]


def curve(first: float) -> list[int]:
    """Eight sizes, each a quarter larger than the one before."""
    return [round(first * STEP**number) for number in range(8)]


def steps(sizes: list[int], found: list[float], words: str) -> Iterator[str]:
    """A larger collective takes no less time, and not much more than its bytes."""
    for size, before, after in zip(sizes[1:], found[:-1], found[1:], strict=True):
        if after < 0.995 * before:
            yield f"{words}: {size} B take {after:.1f} us, a fifth less takes {before:.1f}"
        if after > STEP * 1.12 * before:
            yield f"{words}: {size} B take {after:.1f} us, a fifth less only {before:.1f}: a cliff"


def sharp(random: np.random.Generator, _: Path) -> Case:
    """The same all-reduce with and without reduction in the network."""
    server = str(random.choice(["hgx-h100", "hgx-h200", "hgx-b200"]))
    ranks = int(random.choice([64, 96, 128, 256, 512]))
    sizes = curve(10 ** random.uniform(5.0, 9.6))

    def judge(_: object) -> Iterator[str]:
        plain, sharp = (
            times_us(cluster(server, ranks, "infiniband", sharp=on), ranks, CollectiveKind.ALL_REDUCE, sizes)
            for on in (False, True)
        )
        for size, without, found in zip(sizes, plain, sharp, strict=True):
            low, high = (1.25, 1.9) if size >= 512 * MIB else (1.0, 2.5)
            if not low <= without / found <= high:
                yield f"{size} B: {without / found:.2f} times as fast with SHARP, credible are {low} to {high}"
        yield from steps(sizes, plain, "without SHARP")
        yield from steps(sizes, sharp, "with SHARP")

    return Case(f"{ranks} x {server}, from {sizes[0]} B", (), judge)


def choice(random: np.random.Generator, _: Path) -> Case:
    """What the library takes against every algorithm that it has, forced."""
    server = str(random.choice(["hgx-h100", "hgx-h200", "hgx-b200", "dgx-a100"]))
    ranks = int(random.choice([8, 16, 32, 64, 128, 256]))
    kind = CollectiveKind[str(random.choice(["ALL_REDUCE", "ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"]))]
    on = bool(random.integers(2))
    sizes = curve(10 ** random.uniform(4.0, 9.0))

    def judge(_: object) -> Iterator[str]:
        machine = cluster(server, ranks, "infiniband", sharp=on)
        chosen = times_us(machine, ranks, kind, sizes)
        for name in NCCL:
            try:
                forced = times_us(machine, ranks, kind, sizes, name)
            except InputError:
                continue  # cannot do this here
            slower = [size for size, a, b in zip(sizes, chosen, forced, strict=True) if a > 1.01 * b]
            if slower and not (name == "pat" and ranks > 8):
                yield f"`{name}` would be faster at {slower} B"
        yield from steps(sizes, chosen, "as chosen")

    return Case(f"{kind.name} on {ranks} x {server}, SHARP {on}, from {sizes[0]} B", (), judge)


SHARES = (
    # server, ranks, ranks of a domain, share of the NIC's line: logs 43, 44, 45 and 56, and beyond them
    ("oci-bm-gpu-gb200-4", 128, 64, 0.86, 0.97),
    ("oci-bm-gpu-gb200-4", 192, 64, 0.78, 0.88),
    ("mi355x-8", 16, 8, 0.90, 0.98),
    ("mi355x-8", 32, 8, 0.71, 0.86),
    ("hgx-h100", 16, 8, 0.92, 0.99),
    ("hgx-h100", 128, 8, 0.68, 0.92),
    ("hgx-h200", 256, 8, 0.68, 0.92),
    ("hgx-h100", 256, 8, 0.68, 0.92),
)


def exchange(random: np.random.Generator, _: Path) -> Case:
    """A large all-to-all: what share of their line the NICs get."""
    server, ranks, domain, low, high = SHARES[int(random.integers(len(SHARES)))]
    fabric = "roce" if server.startswith(("oci", "mi")) else str(random.choice(["infiniband", "roce", "spectrum-x"]))
    size = int(random.choice([4, 8, 16])) << 30

    def judge(_: object) -> Iterator[str]:
        own = {} if domain == 8 else {"server": {"scale_up_domain": domain}}
        network = NetworkSpec(topologies.get("rail-optimized")(), FabricSpec(fabric))
        machine = build(ClusterSpec(ranks, server, network, overrides=own), catalog.load())
        (found,) = times_us(machine, ranks, CollectiveKind.ALL_TO_ALL, [size])
        line = float(machine.links.rate_bps[machine.back_end.port_links(0)[0]].sum()) / 8e6
        share = size * (ranks - domain) / ranks / found / line
        if not low <= share <= high:
            yield f"{share:.1%} of the NIC, logs show {low:.0%} to {high:.0%}"

    return Case(f"{ranks} x {server} in domains of {domain}, {fabric}, {size >> 30} GiB", (), judge)


def beyond(random: np.random.Generator, folder: Path) -> Case:
    """A step whose collectives nobody has measured: more ranks than any log, or switches that add."""
    sharp = bool(random.integers(2))
    accelerators = int(random.choice([128, 256] if sharp else [512, 768]))
    scenario = {
        "name": "trial",
        "cluster": {
            "accelerators": accelerators,
            "server": str(random.choice(["hgx-h100", "hgx-b200"])),
            "back_end": {
                "topology": {"kind": "leaf-spine"},
                "fabric": {"name": "infiniband", "sharp": sharp},
            },
        },
        "workload": {
            "training": {
                "model": "llama-3.2-1b",
                "tokens": "100 B",
                "global_batch": accelerators,
                "sequence": 2048,
                "parallelism": {"tp": 1, "zero": 0, "micro_batch": 1},
            }
        },
    }
    (folder / "trial.yaml").write_text(json.dumps(scenario), encoding="utf-8")

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        words = " ".join(outputs[0].data["variants"][0]["warnings"]).lower()
        if "all-reduce" not in words or "beyond" not in words or "band" not in words:
            yield "no warning says that an all-reduce is beyond what was measured, nor how wide its band is"

    return Case(f"{accelerators} accelerators, SHARP {sharp}", (("run", "trial.yaml", "--json"),), judge)


trials.add("beyond-logs", Trial("beyond-logs", "What nobody measured is marked, and its band is wider.", beyond))
trials.add("sharp", Trial("sharp", "SHARP gains 1.3 to 1.8 where logs exist, and has no cliff beyond.", sharp))
trials.add("library-choice", Trial("library-choice", "No algorithm that the library knows is faster.", choice))
trials.add("exchange", Trial("exchange", "An all-to-all gets from its NICs what logs show.", exchange))
