"""Training steps packet by packet, with what is skipped and without: errors of step, collectives, tails and pauses.

    python benchmarks/skipping.py [--steps 30] [--seed 0] [--hops 3 20] [--share 0.1] [--svg FILE]

Steps are drawn from models, layouts, 32 to 128 GPUs, six fabrics, rails and leaf-spine, 1:1 and 2:1, packed and
scattered, so that each takes between the given millions of packet-hops. Each runs whole; whole with exact repeats, of
which everything must be equal; and with a budget of `--share` of its hops, for which repeats are sampled and the
rest is sliced.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railyard.engine.flow import FLOW
from railyard.engine.lowering import lower
from railyard.engine.packet import engine as packet_engine
from railyard.engine.packet.lowering import Lowering
from railyard.engine.packet.placing import place
from railyard.engine.packet.plan import Slicing
from railyard.engine.packet.slices import hops_in
from railyard.graph import Job, Kind
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.scenario.load import Variant
from railyard.work.training.prepare import prepare
from railyard_validation.plot import Axis, Curve, Plot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.packet.engine import PacketEngine
    from railyard.graph import Record, TaskGraph
    from railyard.work.training.prepare import Prepared

FABRICS = ("roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal")
LAYOUTS = (
    {"zero": 3}, {"zero": 3, "tp": 2}, {"zero": 1, "tp": 8}, {"zero": 1, "tp": 4, "pp": 2}, {"zero": 1, "pp": 4},
    {"zero": 0, "tp": 2}, {"zero": 1, "tp": 8, "pp": 2}, {"zero": 1},
)  # fmt: skip

TURNS, MOST_SENDS = 1000, 500_000
LEAST = 1e-3
"""Share of the step that a communication takes of which the error counts."""
HEAD = (
    "| step | hops skipped | step | collectives, mean | worst | p99 | pauses | whole, CPU s | with, CPU s |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def model(draw: random.Random) -> dict[str, Any]:
    """The `config.json` of a small dense model."""
    hidden = draw.choice([256, 512, 1024, 2048])
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "head_dim": 64,
        "hidden_size": hidden, "intermediate_size": 4 * hidden, "num_attention_heads": hidden // 64,
        "num_key_value_heads": 8, "num_hidden_layers": draw.choice([8, 16, 32]),
        "vocab_size": draw.choice([8192, 32768]),
        "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip


def scenario(draw: random.Random, fabric: str) -> dict[str, Any]:
    """A cluster and a step."""
    ranks, layout = draw.choice([32, 64, 96, 128]), draw.choice(LAYOUTS)
    replicas = ranks // (layout.get("tp", 1) * layout.get("pp", 1))
    topology = draw.choice(["rail-optimized", "leaf-spine", "leaf-spine"])
    return {
        "name": "step",
        "seed": draw.randrange(1000),
        "cluster": {
            "accelerators": ranks,
            "server": "hgx-h100",
            "placement": draw.choice(["packed", "scattered"]),
            "back_end": {
                "topology": {
                    "kind": topology, "oversubscription": draw.choice(["1:1", "2:1"]),
                    **({"ports_per_leaf": 16} if topology == "leaf-spine" else {}),
                },
                "fabric": fabric,
            },
        },
        "workload": {
            "training": {
                "model": "config.json", "tokens": "1 T", "sequence": draw.choice([128, 256, 512]),
                "global_batch": replicas * draw.choice([1, 2]) * layout.get("pp", 1),
                "parallelism": {"micro_batch": 1, "recompute": "none", **layout},
            }
        },
    }  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A drawn step that fits."""

    name: str
    job: Prepared

    @cached_property
    def graph(self) -> TaskGraph:
        """Its tasks."""
        return self.job.graphs.of(self.job.training, self.job.cluster)

    @cached_property
    def networked(self) -> NDArray[np.bool_]:
        """bool[tasks], communications between servers."""
        graph, width = self.graph, self.job.cluster.ranks_per_server
        server, ptr = graph.communicators.ranks // width, graph.communicators.ptr[:-1]
        spread = np.maximum.reduceat(server, ptr) > np.minimum.reduceat(server, ptr)
        shared = graph.kind == Kind.COLLECTIVE
        across = (graph.kind == Kind.TRANSFER) & (graph.rank // width != graph.peer // width)
        return across | shared & spread[np.where(shared, graph.rank, 0)]

    @property
    def sends(self) -> int:
        """Into which the whole step is cut."""
        job = self.job
        lowered = lower(self.graph, job.cluster, job.policy)
        lowering = Lowering(self.graph, job.cluster, lowered, job.policy, self.graph.duration_ps)
        placed = place(job.cluster, scale_up=False, packet_bytes=4160, header_bytes=64)
        return sum(len(block.source) for block in lowering.blocks(placed, Slicing()))


def drawn(seed: int, number: int, least: float, most: float) -> Step:
    """The step of a number: the first of its draws whose packets take between so many hops."""
    for turn in range(TURNS):
        draw = random.Random(f"{seed}/{number}/{turn}")
        fabric = FABRICS[number % len(FABRICS)]
        values, config = scenario(draw, fabric), model(draw)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
            try:
                draft = replace(load.from_values(values), folder=Path(folder))
                job = prepare([Variant("step", {}, draft)], "packet")[0]
            except InputError:
                continue
        cluster, layout = values["cluster"], values["workload"]["training"]["parallelism"]
        topology = cluster["back_end"]["topology"]
        sizes = " ".join(f"{name} {layout[name]}" for name in ("zero", "tp", "pp") if name in layout)
        where = f"{topology['kind']} {topology['oversubscription']}, {cluster['placement']}"
        step = Step(f"{fabric}, {where}, {cluster['accelerators']} GPUs, {sizes}", job)
        record = FLOW.simulate([Job(step.graph)], job.cluster, policy=job.policy)
        if least <= hops_in(record, job.cluster) <= most and step.sends < MOST_SENDS:
            return step
    raise SystemExit("no step of that size was drawn")


def ran(step: Step, **changed: Any) -> tuple[Record, float]:
    """The step by the packet engine, and the processor seconds that it took."""
    job = step.job
    engine = replace(cast("PacketEngine", job.engine), **changed)
    begun = time.process_time()
    found = engine.simulate([Job(step.graph)], job.cluster, policy=job.policy)
    return found, time.process_time() - begun


@dataclass(frozen=True)
class Errors:
    """What a run gets wrong of the whole one, as shares of it.

    Attributes:
        step: Signed, of the step's time.
        collectives: Of each communication through NICs that takes a thousandth of the step or more, without sign.
        p99: Signed, of the 99th percentile of completion times of flows.
        pauses: Of pauses, counted, and as a slice multiplies them.
        skipped: Share of the hops that were not simulated.
    """

    step: float
    collectives: NDArray[np.float64]
    p99: float
    pauses: tuple[int, int]
    skipped: float
    cpu_s: tuple[float, float]


def errors(step: Step, whole: tuple[Record, float], other: tuple[Record, float]) -> Errors:
    """Of another run of a step."""
    (real, real_s), (said, said_s) = whole, other
    real_ps, said_ps = real.end_ps - real.start_ps, said.end_ps - said.start_ps
    counted = step.networked & (real_ps >= LEAST * real.makespan_ps)
    flows = [one.parts["flows"] for one in (real, said)]
    p99 = [float(np.percentile(one.end_ps - one.start_ps, 99)) for one in flows]
    sent, repeated = flows[1].meta["packets"], flows[1].meta["repeats"]["hops"]
    factor = said.meta["slice"]
    return Errors(
        step=said.makespan_ps / real.makespan_ps - 1,
        collectives=np.abs(said_ps[counted] / real_ps[counted] - 1),
        p99=p99[1] / p99[0] - 1,
        pauses=(flows[0].meta["packets"]["pauses"], round(sent["pauses"] * factor)),
        skipped=1 - (sent["hops"] - repeated) / flows[0].meta["packets"]["hops"],
        cpu_s=(real_s, said_s),
    )


def compared(step: Step, share: float) -> dict[str, Errors]:
    """Exact repeats where there are any, and a budget, against the whole step."""
    everything = {"budget_hops": 1e12, "budget_sends": 10**8}
    repeated = ran(step, **everything)
    found, whole = {}, repeated
    if repeated[0].parts["flows"].meta["repeats"]["hops"]:
        whole = ran(step, **everything, repeats=False)
        found["repeats"] = errors(step, whole, repeated)
        if repeated[0].digest() != whole[0].digest():
            raise SystemExit(f"{step.name}: another digest with repeats")
    hops = whole[0].parts["flows"].meta["packets"]["hops"]
    found["budget"] = errors(step, whole, ran(step, budget_hops=share * hops))
    return found


def line(name: str, found: Errors) -> str:
    """A row of the table."""
    each = found.collectives if len(found.collectives) else np.zeros(1)
    pauses = "none" if found.pauses == (0, 0) else f"{found.pauses[0]:,} -> {found.pauses[1]:,}"
    cells = (f"{100 * found.skipped:.0f} %", f"{100 * found.step:+.2f} %", f"{100 * each.mean():.2f} %")
    more = (f"{100 * each.max():.1f} %", f"{100 * found.p99:+.1f} %", pauses, *(f"{one:.1f}" for one in found.cpu_s))
    return f"| {name} | " + " | ".join((*cells, *more)) + " |"


def picture(rows: list[tuple[str, Errors]]) -> Plot:
    """Errors within the budget by step, those with the worst collective first."""
    order = sorted((found for _, found in rows), key=lambda one: -one.collectives.max(initial=0.0))
    curves = {
        "worst collective": [one.collectives.max(initial=0.0) for one in order],
        "p99 of completion times": [abs(one.p99) for one in order],
        "step": [abs(one.step) for one in order],
    }
    points = {name: [(at + 1.0, max(100 * value, 0.01)) for at, value in enumerate(of)] for name, of in curves.items()}
    return Plot(
        "What a tenth of the hops gets wrong",
        Axis("drawn step, the one with the worst collective first", 0.0, len(order) + 1.0),
        Axis("error without sign", 0.01, log=True, suffix=" %"),
        [Curve(name, values, joined=False) for name, values in points.items()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hops", type=float, nargs=2, default=(3.0, 20.0), metavar=("LEAST", "MOST"), help="millions")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    packet_engine.LEAST_HOPS = 0.0  # a step that needs a slice is so large that the floor of measuring does not count
    rows: dict[str, list[tuple[str, Errors]]] = {"repeats": [], "budget": []}
    print(HEAD)
    for number in range(given.steps):
        step = drawn(given.seed, number, *(1e6 * one for one in given.hops))
        for way, found in compared(step, given.share).items():
            rows[way].append((step.name, found))
            print(line(f"{number}. {step.name}: {way}", found), flush=True)
    for way, ones in rows.items():
        if ones:
            print(f"{way}, {len(ones)} steps: {summary([found for _, found in ones])}")
    if given.svg:
        given.svg.write_text(picture(rows["budget"]).svg(), encoding="utf-8")


def summary(found: list[Errors]) -> str:
    """Means and worst of all steps."""
    step, p99 = (np.abs([getattr(one, name) for one in found]) for name in ("step", "p99"))
    each = np.concatenate([one.collectives for one in found])
    return (
        f"step mean {100 * step.mean():.2f} %, worst {100 * step.max():.2f} %;"
        f" collectives mean {100 * each.mean():.2f} %, worst {100 * each.max(initial=0.0):.1f} %;"
        f" p99 mean {100 * p99.mean():.1f} %, worst {100 * p99.max():.1f} %;"
        f" hops skipped {100 * np.mean([one.skipped for one in found]):.0f} %"
    )


if __name__ == "__main__":
    main()
