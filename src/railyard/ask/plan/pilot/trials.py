"""Tests for a pilot pod: what is run on how many servers, and what the model expects there.

A pod has the first servers of a design, by default the fewest, two or more, on which its job fits: the same layout with
fewer data-parallel replicas, each with the micro-batches that it has in the design. A service runs one replica of each
pool at its part of the rate. Collectives are nccl-tests over the whole pod, all-to-all where experts are spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.expected import collective_s
from railyard.ask.observe.kernels import BUSBW
from railyard.ask.plan.designs import service
from railyard.ask.plan.designs.build import Bench
from railyard.ask.plan.designs.doubt import Doubts
from railyard.ask.plan.designs.outcome import layout_of
from railyard.ask.plan.pilot.flips import Beliefs, Flip, Trial, flips
from railyard.kit.errors import InputError
from railyard.measure.result.step import EXPOSED
from railyard.work.remedies.changed import PARALLELISM
from railyard.work.study import compose, study
from railyard.work.study.folder import slug

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.ask.plan.designs.doubt import Choice
    from railyard.ask.plan.designs.planned import Planned
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.section import ServingSection
    from railyard.work.training.spec import Layout

_PERF = {"all_reduce": "all_reduce_perf", "all_to_all": "alltoall_perf"}

SIZE_BYTES = 1 << 28
"""Of the collective: 256 MiB, where rates and not floors set the time."""

LEAST_CHANCE = 0.001
"""Tests of designs other than the recommended one are listed from this chance to change the recommendation."""


@dataclass(frozen=True)
class Sheet:
    """Tests of a plan.

    Attributes:
        planned: The plan.
        beliefs: What is known of the model's error before any test.
        rows: Tests with the results at which another design is best, those first that change the choice most likely.
    """

    planned: Planned
    beliefs: Beliefs
    rows: tuple[tuple[Trial, tuple[Flip, ...]], ...]


def sheet(planned: Planned, servers: int | None, progress: Callable[[str, float], None]) -> Sheet:
    """What to test on a pilot pod.

    Args:
        planned: A plan that was worked out to its end.
        servers: Of a pod; None: the fewest.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The job of the recommended design does not fit so many servers.
    """
    beliefs = Beliefs.of(Doubts.of(planned.choices, planned.closed_form[:2]))
    bench, rows, seen = Bench(planned.space), [], set()
    for number, choice in enumerate(planned.choices):
        progress(f"a pilot of {choice.name}", number / len(planned.choices))
        for names, make in _kinds(choice):
            if names in seen or not _matters(planned, beliefs, number, names):
                continue
            seen.add(names)
            trial = make(planned, bench, number, servers)
            rows.append((trial, flips(planned, beliefs, trial)))
    rows.sort(key=lambda row: -sum(flip.chance for flip in row[1]))
    return Sheet(planned, beliefs, tuple(rows))


def _kinds(choice: Choice) -> Iterator[tuple[frozenset[str], Callable[..., Trial]]]:
    """What can be tested of a design: names of the factors, and what makes the test."""
    missed = choice.missed[0]
    yield (
        frozenset(one.factor.name for one in missed if not one.network),
        _service if choice.engine == "serving" else _step,
    )
    network = frozenset(one.factor.name for one in missed if one.network)
    if network and choice.hardware[0].cluster.servers > 1:
        yield network, _collective


def _matters(planned: Planned, beliefs: Beliefs, number: int, names: frozenset[str]) -> bool:
    """Whether a test that shows the sum of some factors may change the choice; of the recommended design all do."""
    weights = dict.fromkeys(names, 1.0)
    bare = Trial("", "", number, servers=0, ranks=0, unit="", rate=False, predicted=1.0, weights=weights)
    return number == 0 or sum(flip.chance for flip in flips(planned, beliefs, bare)) >= LEAST_CHANCE


def _heaviest(planned: Planned) -> int:
    """The demand with the largest share, under which a pod is tested."""
    return int(np.argmax(planned.shares))


def _step(planned: Planned, bench: Bench, number: int, servers: int | None) -> Trial:
    """A step of training, the same layout on fewer servers."""
    choice, demand = planned.choices[number], _heaviest(planned)
    draft, layout, ranks = _pod(planned, bench, choice, demand, servers)
    found: Any = study.run(draft, engine=planned.engine, searched=False).result.variants[0]
    exposed = sum(row.share for row in found.time if row.cause in EXPOSED)
    weights = {one.factor.name: exposed if one.network else 1.0 for one in choice.missed[demand]}
    cluster = choice.hardware[demand].cluster
    count = ranks // cluster.ranks_per_server
    name = slug(f"step {cluster.accelerator.name} {number + 1}")
    command = _megatron(draft, layout, count, cluster.ranks_per_server)
    return Trial(
        name=name,
        kind="step",
        choice=number,
        servers=count,
        ranks=ranks,
        unit="s",
        rate=False,
        predicted=float(found.step.seconds),
        weights=weights,
        command=command,
    )


def _megatron(draft: Draft, layout: Layout, servers: int, each: int) -> str:
    """The step in the words of Megatron-LM; another framework takes the same degrees."""
    job = draft.scenario.training
    degrees = {
        "tensor-model-parallel-size": layout.tp,
        "pipeline-model-parallel-size": layout.pp,
        "context-parallel-size": layout.cp,
        "expert-model-parallel-size": layout.ep,
        "micro-batch-size": layout.micro_batch,
        "global-batch-size": layout.global_batch,
        "seq-length": job.sequence,
    }
    words = [f"--{name} {value}" for name, value in degrees.items() if value > 1 or "parallel" not in name]
    words += ["--use-distributed-optimizer"] if layout.zero else []
    words += [f"--recompute-granularity {layout.recompute}"] if layout.recompute in ("full", "selective") else []
    words += [f"--{job.precision}"] if job.precision == "bf16" else ["--bf16 --fp8-format hybrid"]
    run = f"MODEL={job.model} torchrun --nnodes {servers} --nproc-per-node {each} pretrain_gpt.py $MODEL_ARGS"
    return " ".join([run, *words])


def _pod(planned: Planned, bench: Bench, choice: Choice, demand: int, servers: int | None) -> tuple[Draft, Layout, int]:
    """The scenario of a pod of a design, the layout of its job and its accelerators.

    Raises:
        InputError: No replica of the job fits.
    """
    layout = layout_of(choice.outcomes[demand].layouts[0])
    each = bench.hardware(choice.point, demand).cluster.ranks_per_server
    draft = planned.space.draft(choice.point, demand)
    replica = layout.tp * layout.pp * layout.cp
    sizes = [dp for dp in range(1, layout.dp + 1) if layout.dp % dp == 0 and replica * dp % each == 0]
    wanted = [dp for dp in sizes if servers is None or replica * dp == servers * each]
    problem = None
    for dp in wanted if len(wanted) == 1 else [dp for dp in wanted if replica * dp > each] or wanted:
        changes = {
            "compare": {},
            "repeat": 1,
            "cluster.accelerators": replica * dp,
            "workload.training.global_batch": layout.global_batch * dp // layout.dp,
            PARALLELISM: {**layout.parallelism(), "dp": dp},
        }
        try:
            pod = draft.with_values(changes, "the pilot pod")
            job = study.prepare(pod, engine=planned.engine)[0]
        except InputError as error:
            problem = problem or error
            continue
        return pod, job.training.layout, replica * dp
    allowed = [replica * dp // each for dp in sizes]
    raise problem or InputError(
        f"no pod of {servers} servers has the layout of {choice.name}", key="--servers", allowed=allowed
    )


def _collective(planned: Planned, bench: Bench, number: int, servers: int | None) -> Trial:
    """nccl-tests over the pod, of the kind that the job's layout exposes."""
    choice, demand = planned.choices[number], _heaviest(planned)
    draft, layout, ranks = _pod(planned, bench, choice, demand, servers)
    cluster = compose.cluster_of(draft, bench.catalog(choice.point, demand))
    kind = "all_to_all" if layout.ep > 1 else "all_reduce"
    seconds = collective_s(cluster, kind, SIZE_BYTES, np.arange(ranks, dtype=np.int32))
    if not seconds:
        raise InputError(f"the model knows no {kind} over {ranks} accelerators of {choice.name}")
    weights = {one.factor.name: 1.0 for one in choice.missed[demand] if one.network}
    busbw = SIZE_BYTES * BUSBW[kind](ranks) / seconds / 1e9
    spread = f"mpirun -np {ranks} --map-by ppr:{cluster.ranks_per_server}:node --hostfile HOSTS"
    return Trial(
        name=slug(f"{kind} {cluster.fabric.name}"),
        kind="collective",
        choice=number,
        servers=cluster.servers,
        ranks=ranks,
        unit="GB/s",
        rate=True,
        predicted=busbw,
        weights=weights,
        collective=kind,
        command=f"{spread} {_PERF[kind]} -b 256M -e 256M -n 100 -g 1",
    )


def _service(planned: Planned, bench: Bench, number: int, servers: int | None) -> Trial:
    """One replica of each pool at its part of the rate: the median time of a token."""
    choice, demand = planned.choices[number], _heaviest(planned)
    ranks, copies = service.replica(bench, choice.point, demand)
    cluster = choice.hardware[demand].cluster
    count = -(-ranks // cluster.ranks_per_server)
    if servers is not None and servers < count:
        what = f"one replica of each pool of {choice.name} does not fit"
        raise InputError(what, key="--servers", found=servers, allowed=f"{count} or more")
    figures: Mapping[str, float] = choice.outcomes[demand].figures
    section = planned.space.draft(choice.point, demand).scenario.serving
    return Trial(
        name=slug(f"tpot {cluster.accelerator.name} {number + 1}"),
        kind="service",
        choice=number,
        servers=count,
        ranks=ranks,
        unit="ms",
        rate=False,
        predicted=figures["tpot_p50"] * 1e3,
        weights={one.factor.name: one.share for one in choice.missed[demand]},
        command=_vllm(section, copies),
    )


def _vllm(section: ServingSection, copies: int) -> str:
    """The run in the words of vLLM: one replica of each pool, and requests as the scenario draws them."""
    words = []
    for pool in filter(None, (section.pools.prefill, section.pools.decode, section.pools.both)):
        degrees = f"--tensor-parallel-size {pool.tp}" + (f" --pipeline-parallel-size {pool.pp}" if pool.pp > 1 else "")
        words.append(f"vllm serve {section.model} {degrees}" + (" --enable-expert-parallel" if pool.ep > 1 else ""))
    drawn = section.requests.synthetic
    asked = f"--dataset-name custom --dataset-path {section.requests.trace}"
    if drawn is not None:
        lengths = f"--random-input-len {drawn.input.mean:.0f} --random-output-len {drawn.output.mean:.0f}"
        rate = f" --request-rate {drawn.rate / copies:g}" if drawn.rate else f" --max-concurrency {drawn.users or 1}"
        asked = f"--dataset-name random {lengths}{rate}"
    return " & ".join([*words, f"vllm bench serve --model {section.model} {asked}"])
