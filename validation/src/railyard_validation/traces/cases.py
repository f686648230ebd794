"""Cases: a random job, what is wrong with it, and what a diagnosis of its traces must say.

What is wrong is judged by its effect: the same job is played without it. Evidence suffices where a fault prolongs the
step by `VISIBLE` or more, the files of the guilty rank and of three or more ranks that do the same work are there, and,
for a slow network interface, no other rank communicates with the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard_validation.traces.job import Job
from railyard_validation.traces.kineto import STYLES, Clock, Style, Writer
from railyard_validation.traces.play import Conduct, Play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard_validation.traces.job import Communication, Kernel
    from railyard_validation.traces.play import Event

    Draw = Callable[["Plan", np.random.Generator], None]

VISIBLE = 0.02
"""Of the step: a fault that prolongs it by less may be missed."""

PEERS = 3
"""Fewest ranks with the same work whose files must be there."""

COMPUTE_BOUND = ("gemm", "attention", "expert")


@dataclass(frozen=True)
class Effect:
    """What one fault does.

    Attributes:
        ranks: To which ranks.
        steps: In which steps.
        kernels: By kind of kernel, factors on their time; those of `*` for all that are not named.
        stall_us: The host prepares data for so long before a step.
        launch: Factor on the host's time per launch.
        transfer: Factor on communications that leave the host of these ranks.
        everywhere: Factor on all-to-all of these ranks, wherever it goes.
    """

    ranks: frozenset[int]
    steps: frozenset[int]
    kernels: dict[str, float] = field(default_factory=dict)
    stall_us: float = 0.0
    launch: float = 1.0
    transfer: float = 1.0
    everywhere: float = 1.0


@dataclass(frozen=True)
class Wrong:
    """What must be named.

    Attributes:
        parts: Accepted names, one is enough; none: any name of the right kind.
        each: Or these names together.
        kinds: Any of them.
        pattern: constant or intermittent.
        steps: In which it is slow, as the traces number them.
        effects: What it does.
    """

    parts: tuple[str, ...]
    each: tuple[str, ...]
    kinds: tuple[str, ...]
    pattern: str
    steps: tuple[int, ...]
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True)
class Truth:
    """What a case is.

    Attributes:
        situation: Its name.
        wrong: Faults; none: healthy.
        missing: Ranks whose files are not there.
        evidence: `enough` to name the faults, or to say that nothing is wrong; `short`: files or peers are missing;
            `faint`: a fault costs so little that it may be missed.
        effects: Share by which each fault alone prolongs the step.
        words: What was drawn.
    """

    situation: str
    wrong: tuple[Wrong, ...]
    missing: tuple[int, ...]
    evidence: str
    effects: tuple[float, ...]
    words: str


@dataclass
class Plan:
    """A case before it is played.

    Attributes:
        job: The job.
        style: How its traces are written.
        conduct: Noise of all ranks.
        wrong: Faults.
        files: Ranks whose traces are written; None: all.
        kernels: Of each rank, that are written; None: all.
        suffices: Whether the evidence suffices, if the effect is large enough.
    """

    job: Job
    style: Style
    conduct: Conduct
    wrong: list[Wrong] = field(default_factory=list)
    files: tuple[int, ...] | None = None
    kernels: int | None = None
    suffices: bool = True


# --- jobs ------------------------------------------------------------------------------------------------------------

_LAYOUTS = ("data", "data", "sharded", "tensor", "pipeline", "expert")


def plan(rng: np.random.Generator, layout: str = "") -> Plan:
    """A healthy job."""
    layout = layout or str(rng.choice(_LAYOUTS))
    per_host = int(rng.choice([4, 8]))
    ranks = int(rng.choice([8, 16]))
    tensor, pipeline, expert = 1, 1, 1
    if layout == "tensor":
        tensor, ranks = 4, 16
    elif layout == "pipeline":
        pipeline, ranks = 2, 16
        per_host = 8
    elif layout == "expert":
        expert, ranks = int(rng.choice([4, 8])), 16
    job = Job(
        ranks=ranks,
        per_host=per_host,
        tensor=tensor,
        pipeline=pipeline,
        expert=expert,
        sharded=layout == "sharded",
        layers=int(rng.integers(2, 5)),
        micro_batches=4 if pipeline > 1 else 1,
        steps=int(rng.integers(6, 13)),
        scale=float(np.exp(rng.uniform(np.log(0.3), np.log(3)))),
    )
    marked = bool(rng.random() < 0.7)
    style = Style(
        names=str(rng.choice(STYLES)),
        marked=marked,
        device_marks=marked and bool(rng.random() < 0.4),
        grids=bool(rng.random() < 0.7),
        first=int(rng.integers(1, 600)) if marked else 0,
        packed=bool(rng.random() < 0.4),
    )
    return Plan(job, style, _noise(job, rng))


def _noise(job: Job, rng: np.random.Generator) -> Conduct:
    """Accelerators differ a little, steps of one rank too, and a host hiccups now and then."""
    chip = np.exp(rng.normal(0, rng.choice([0.001, 0.003, 0.006]), job.ranks))
    drift = np.exp(rng.normal(0, rng.choice([0.001, 0.003]), (job.ranks, job.steps)))
    step_us = 9000 * job.layers * job.scale * job.micro_batches
    usual = rng.exponential(0.002 * step_us, (job.ranks, job.steps))
    usual[rng.integers(job.ranks), rng.integers(job.steps)] += 0.03 * step_us
    return Conduct(
        kernel=lambda rank, step, _kernel: float(chip[rank] * drift[rank, step]),
        stall_us=lambda rank, step: float(usual[rank, step]),
        noise=float(rng.choice([0.003, 0.008, 0.015])),
        outliers=float(rng.choice([0.0005, 0.002])),
        network_noise=float(rng.choice([0.02, 0.05])),
    )


def _with(conduct: Conduct, effects: Sequence[Effect], job: Job) -> Conduct:
    """The same with faults."""

    def kernel(rank: int, step: int, what: Kernel) -> float:
        factor = conduct.kernel(rank, step, what)
        for one in effects:
            if rank in one.ranks and step in one.steps:
                factor *= one.kernels.get(what.kind, one.kernels.get("*", 1.0))
        return factor

    def launch(rank: int, step: int) -> float:
        return float(np.prod([one.launch for one in effects if rank in one.ranks and step in one.steps]))

    def stall_us(rank: int, step: int) -> float:
        mine = sum(one.stall_us for one in effects if rank in one.ranks and step in one.steps)
        return conduct.stall_us(rank, step) + mine

    def transfer(step: int, what: Communication) -> float:
        factor = conduct.transfer(step, what)
        leaves = len({rank // job.per_host for rank in what.ranks}) > 1
        for one in effects:
            if step in one.steps and one.ranks & set(what.ranks):
                factor *= max(one.transfer if leaves else 1.0, one.everywhere if what.group == "ep" else 1.0)
        return factor

    return replace(conduct, kernel=kernel, launch=launch, stall_us=stall_us, transfer=transfer)


# --- what may be wrong -----------------------------------------------------------------------------------------------


def _steps(drawn: Plan, rng: np.random.Generator, *, constant: bool) -> tuple[frozenset[int], str, tuple[int, ...]]:
    """Steps, pattern, and their numbers as the traces write them."""
    every = drawn.job.steps
    chosen = list(range(every))
    if not constant:
        chosen = sorted(rng.choice(every, size=int(rng.integers(2, max(every // 2, 3))), replace=False).tolist())
    return (
        frozenset(chosen),
        "constant" if constant else "intermittent",
        tuple(drawn.style.first + step for step in chosen),
    )


def _rank(drawn: Plan, rng: np.random.Generator) -> int:
    """One that nothing is wrong with yet."""
    taken = {rank for wrong in drawn.wrong for effect in wrong.effects for rank in effect.ranks}
    return int(rng.choice([rank for rank in range(drawn.job.ranks) if rank not in taken]))


def _named(ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"rank {rank}" for rank in ranks)


def accelerator(drawn: Plan, rng: np.random.Generator, *, constant: bool = True) -> None:
    """All kernels of a rank are slow, or those most that need its clock."""
    rank, factor = _rank(drawn, rng), float(1 + np.exp(rng.uniform(np.log(0.05), np.log(0.8))))
    if not constant:
        factor = float(rng.uniform(1.12, 2.2))
    rest = factor if rng.random() < 0.6 else 1 + 0.4 * (factor - 1)
    steps, pattern, numbers = _steps(drawn, rng, constant=constant)
    effect = Effect(frozenset([rank]), steps, {"*": rest, **dict.fromkeys(COMPUTE_BOUND, factor)})
    drawn.wrong.append(Wrong(_named([rank]), (), ("accelerator",), pattern, numbers, (effect,)))


def intermittent(drawn: Plan, rng: np.random.Generator) -> None:
    """An accelerator that is slow in some steps."""
    accelerator(drawn, rng, constant=False)


def throttling(drawn: Plan, rng: np.random.Generator) -> None:
    """An accelerator gets hot: from some step on its clock falls, in two steps to its lowest."""
    rank, job = _rank(drawn, rng), drawn.job
    first, factor = int(rng.integers(1, job.steps - 2)), float(rng.uniform(1.12, 1.6))
    effects = []
    for steps, share in (([first], 0.6), (range(first + 1, job.steps), 1.0)):
        slow = 1 + share * (factor - 1)
        kernels = {"*": 1 + 0.3 * (slow - 1), **dict.fromkeys(COMPUTE_BOUND, slow)}
        effects.append(Effect(frozenset([rank]), frozenset(steps), kernels))
    numbers = tuple(drawn.style.first + step for step in range(first, job.steps))
    drawn.wrong.append(Wrong(_named([rank]), (), ("accelerator",), "intermittent", numbers, tuple(effects)))


def server(drawn: Plan, rng: np.random.Generator) -> None:
    """All accelerators of a host are slow: its power is capped."""
    job = drawn.job
    if job.ranks // job.per_host < 2:
        drawn.job = job = replace(job, ranks=16, per_host=4 if job.tensor > 1 else job.per_host)
        drawn.conduct = _noise(job, rng)
    host, factor = int(rng.integers(job.ranks // job.per_host)), float(rng.uniform(1.06, 1.5))
    ranks = range(host * job.per_host, (host + 1) * job.per_host)
    steps, pattern, numbers = _steps(drawn, rng, constant=True)
    effect = Effect(frozenset(ranks), steps, {"*": factor})
    wrong = Wrong((f"server {host}",), _named(ranks), ("host", "accelerator"), pattern, numbers, (effect,))
    drawn.wrong.append(wrong)


def sequences(drawn: Plan, rng: np.random.Generator, *, constant: bool | None = None) -> None:
    """Attention of the ranks that share a batch takes longer, and nothing else."""
    job, rank = drawn.job, _rank(drawn, rng)
    stride = job.tensor * job.data
    ranks = [one + stage * stride for stage in range(job.pipeline) for one in job.tensor_group(rank % stride)]
    constant = bool(rng.random() < 0.7) if constant is None else constant
    steps, pattern, numbers = _steps(drawn, rng, constant=constant)
    effect = Effect(frozenset(ranks), steps, {"attention": float(rng.uniform(1.2, 2.0))})
    parts = _named(ranks) if len(ranks) == 1 else ()
    drawn.wrong.append(Wrong(parts, _named(ranks), ("sequences",), pattern, numbers, (effect,)))


def wandering(drawn: Plan, rng: np.random.Generator) -> None:
    """Batches are of other lengths on every rank and in every step: somebody is always late."""
    job, spread = drawn.job, float(rng.uniform(0.15, 0.3))
    factors = np.exp(rng.normal(0, spread, (job.ranks, job.steps)))
    effects = tuple(
        Effect(frozenset(job.tensor_group(rank)), frozenset([step]), {"attention": float(factors[rank, step])})
        for rank in range(0, job.ranks, job.tensor)
        for step in range(job.steps)
    )
    numbers = tuple(drawn.style.first + step for step in range(job.steps))
    drawn.wrong.append(Wrong((), (), ("sequences",), "", numbers, effects))


def experts(drawn: Plan, rng: np.random.Generator) -> None:
    """The experts of a rank get more tokens than others."""
    rank, factor = _rank(drawn, rng), float(rng.uniform(1.2, 2.0))
    steps, pattern, numbers = _steps(drawn, rng, constant=bool(rng.random() < 0.7))
    effect = Effect(frozenset([rank]), steps, {"expert": factor}, everywhere=1 + 0.3 * (factor - 1))
    drawn.wrong.append(Wrong(_named([rank]), (), ("experts",), pattern, numbers, (effect,)))


def loader(drawn: Plan, rng: np.random.Generator, *, constant: bool | None = None) -> None:
    """The host of a rank prepares its data too slowly, in every step or in some."""
    job, rank = drawn.job, _rank(drawn, rng)
    constant = bool(rng.random() < 0.5) if constant is None else constant
    steps, pattern, numbers = _steps(drawn, rng, constant=constant)
    share = rng.uniform(0.05, 0.3) if constant else rng.uniform(0.2, 0.8)
    effect = Effect(frozenset([rank]), steps, stall_us=float(share * 9000 * job.layers * job.scale * job.micro_batches))
    drawn.wrong.append(Wrong(_named([rank]), (), ("host",), pattern, numbers, (effect,)))


def launches(drawn: Plan, rng: np.random.Generator) -> None:
    """The processor of a host is slow, so that its accelerators wait for launches: of one rank or of all of a host."""
    drawn.job = job = replace(drawn.job, scale=float(rng.uniform(0.06, 0.12)))
    drawn.conduct = _noise(job, rng)
    hosts = job.ranks // job.per_host
    rank = _rank(drawn, rng)
    host = rank // job.per_host
    whole = hosts > 1 and rng.random() < 0.5
    ranks = range(host * job.per_host, (host + 1) * job.per_host) if whole else [rank]
    steps, pattern, numbers = _steps(drawn, rng, constant=True)
    effect = Effect(frozenset(ranks), steps, launch=float(rng.uniform(5, 12)))
    parts = (f"server {host}",) if whole else _named([rank])
    drawn.wrong.append(Wrong(parts, _named(ranks), ("host",), pattern, numbers, (effect,)))


def faint(drawn: Plan, rng: np.random.Generator) -> None:
    """An accelerator that is hardly slower than others are by chance."""
    rank, factor = _rank(drawn, rng), float(rng.uniform(1.004, 1.02))
    steps, pattern, numbers = _steps(drawn, rng, constant=True)
    effect = Effect(frozenset([rank]), steps, {"*": factor})
    drawn.wrong.append(Wrong(_named([rank]), (), ("accelerator",), pattern, numbers, (effect,)))


def interface(drawn: Plan, rng: np.random.Generator) -> None:
    """A rank's way out of its host is slow: only communications that leave the host show it.

    Which rank it is can be seen where no other communicates with the same groups: in the middle of a pipeline of four
    stages, or where expert groups and their replicas cross.
    """
    job = drawn.job
    if job.pipeline > 1:
        drawn.job = replace(job, pipeline=4, per_host=4, layers=2)
    elif job.expert > 1:
        drawn.job = replace(job, ranks=32, expert=8, per_host=4, layers=2)
    drawn.conduct = _noise(drawn.job, rng)
    rank = int(rng.integers(4, 12)) if job.pipeline > 1 else _rank(drawn, rng)
    constant = bool(rng.random() < 0.6)
    steps, pattern, numbers = _steps(drawn, rng, constant=constant)
    effect = Effect(frozenset([rank]), steps, transfer=float(rng.uniform(1.6, 5.0)))
    drawn.wrong.append(Wrong(_named([rank]), (), ("nic", "cable"), pattern, numbers, (effect,)))
    drawn.suffices = drawn.suffices and _told_apart(drawn.job, rank)


def _told_apart(job: Job, rank: int) -> bool:
    """Whether groups that leave a host tell a rank from every other, and each has two others of its kind."""
    leaving = {
        kind: [one for one in those if len({member // job.per_host for member in one}) > 1]
        for kind, those in job.groups().items()
    }
    mine = {(kind, one) for kind, those in leaving.items() for one in those if rank in one}
    rivals = [
        other
        for other in range(job.ranks)
        if other != rank and mine == {(kind, one) for kind, those in leaving.items() for one in those if other in one}
    ]
    return bool(mine) and not rivals and all(len(leaving[kind]) >= PEERS for kind, _ in mine)


# --- situations ------------------------------------------------------------------------------------------------------


def _some_files(drawn: Plan, rng: np.random.Generator, count: int, *, guilty: bool) -> None:
    """Only some ranks' files are there, the guilty one's among them or not."""
    ranks = {rank for wrong in drawn.wrong for effect in wrong.effects for rank in effect.ranks}
    rest = [rank for rank in range(drawn.job.ranks) if rank not in ranks]
    chosen = rng.choice(rest, size=min(count - (len(ranks) if guilty else 0), len(rest)), replace=False).tolist()
    drawn.files = tuple(sorted([*chosen, *(ranks if guilty else ())]))


def _partly(rng: np.random.Generator) -> Plan:
    """Most files, a slow accelerator among them."""
    drawn = plan(rng, str(rng.choice(["data", "sharded", "expert"])))
    if rng.random() < 0.6:
        accelerator(drawn, rng)
    else:
        sequences(drawn, rng, constant=True)
    _some_files(drawn, rng, int(rng.integers(4, drawn.job.ranks)), guilty=True)
    return drawn


def _without_guilty(rng: np.random.Generator) -> Plan:
    """Some files, but not that of the slow rank; or of a healthy job."""
    drawn = plan(rng, "data")
    if rng.random() < 0.7:
        accelerator(drawn, rng)
    _some_files(drawn, rng, int(rng.integers(3, drawn.job.ranks - 1)), guilty=False)
    drawn.suffices = False
    return drawn


def _two_files(rng: np.random.Generator) -> Plan:
    """Two files of many."""
    drawn = plan(rng, "data")
    accelerator(drawn, rng)
    _some_files(drawn, rng, 2, guilty=True)
    drawn.suffices = False
    return drawn


def _two_faults(rng: np.random.Generator) -> Plan:
    """Two different faults of two ranks."""
    drawn = plan(rng, str(rng.choice(["data", "sharded"])))
    first, second = rng.choice(4, size=2, replace=False).tolist()
    for number in (first, second):
        (accelerator, intermittent, sequences, loader)[number](drawn, rng)
    return drawn


def _too_little(rng: np.random.Generator) -> Plan:
    """A handful of kernels of every rank, and no collective."""
    drawn = plan(rng, str(rng.choice(["data", "pipeline"])))
    drawn.kernels = int(rng.integers(2, 10))
    drawn.suffices = False
    return drawn


def _one(layout: str, *draws: Draw) -> Callable[[np.random.Generator], Plan]:
    def draw(rng: np.random.Generator) -> Plan:
        drawn = plan(rng, layout)
        for one in draws:
            one(drawn, rng)
        return drawn

    return draw


_SITUATIONS: dict[str, tuple[int, Callable[[np.random.Generator], Plan]]] = {
    "uneven sequences": (6, _one("", sequences)),
    "sequences that wander": (2, _one("data", wandering)),
    "uneven experts": (3, _one("expert", experts)),
    "slow accelerator": (5, _one("", accelerator)),
    "hardly slow accelerator": (2, _one("", faint)),
    "intermittent accelerator": (6, _one("", intermittent)),
    "throttling": (4, _one("", throttling)),
    "slow server": (3, _one("sharded", server)),
    "data loader": (5, _one("", loader)),
    "slow launches": (3, _one("", launches)),
    "slow interface": (3, _one("pipeline", interface)),
    "slow interface of experts": (1, _one("expert", interface)),
    "slow interface, not told apart": (1, _one("tensor", interface)),
    "some files": (3, _partly),
    "some files, not the guilty one's": (1, _without_guilty),
    "two files": (1, _two_files),
    "two faults": (4, _two_faults),
    "too little": (1, _too_little),
    "healthy": (6, _one("")),
}
"""How many of 60 cases are of each situation, and how one is drawn."""

SITUATIONS = tuple(name for name, (count, _) in _SITUATIONS.items() for _ in range(count))


def drawn(situation: str, rng: np.random.Generator, folder: Path, noise: float = 1.0) -> Truth:
    """Draws a case of a situation, writes its traces into a folder, and says what is true.

    Args:
        situation: Its name.
        rng: Of all that is drawn.
        folder: Of the traces.
        noise: Factor on what differs by chance.
    """
    case = _SITUATIONS[situation][1](rng)
    case.conduct = _louder(case.conduct, noise)
    return written(case, situation, rng, folder)


def _louder(usual: Conduct, noise: float) -> Conduct:
    """The same chance events, so many times as large."""
    return replace(
        usual,
        kernel=lambda rank, step, what: usual.kernel(rank, step, what) ** noise,
        stall_us=lambda rank, step: noise * usual.stall_us(rank, step),
        noise=noise * usual.noise,
        outliers=noise * usual.outliers,
        network_noise=noise * usual.network_noise,
    )


def written(case: Plan, situation: str, rng: np.random.Generator, folder: Path) -> Truth:
    """Plays a case and writes its traces; what each fault costs is seen by playing the job with it alone, and without.

    Args:
        case: What to play.
        situation: Its name.
        rng: For clocks and noise.
        folder: Of the traces.
    """
    seed = int(rng.integers(1 << 31))

    def play(wrong: Sequence[Wrong]) -> tuple[list[list[Event]], NDArray[np.float64]]:
        conduct = _with(case.conduct, [effect for one in wrong for effect in one.effects], case.job)
        return Play(case.job, conduct, np.random.default_rng(seed)).events()

    events, starts = play(case.wrong)
    healthy = play(())[1][:, -1].max()
    effects = tuple(float(play((one,))[1][:, -1].max() / healthy - 1) for one in case.wrong)
    clocks = _clocks(case, rng)
    files = range(case.job.ranks) if case.files is None else case.files
    folder.mkdir(parents=True, exist_ok=True)
    for rank in files:
        file = Writer(case.job, case.style, rank, clocks[rank])
        file.write(folder, _cut(events[rank], case.kernels), starts[rank])
    faults = "; ".join(f"{one.parts or one.each} {one.kinds[0]} {one.pattern} {one.steps}" for one in case.wrong)
    return Truth(
        situation=situation,
        wrong=tuple(case.wrong),
        missing=tuple(rank for rank in range(case.job.ranks) if rank not in files),
        evidence=_evidence(case, files, effects),
        effects=effects,
        words=f"{situation}: {case.job}, {case.style}, effects {[f'{one:.1%}' for one in effects]}, {faults}",
    )


def _evidence(case: Plan, files: Sequence[int], effects: Sequence[float]) -> str:
    if not case.suffices or not _peers(case, files):
        return "short"
    return "faint" if any(one < VISIBLE for one in effects) else "enough"


def _peers(case: Plan, files: Sequence[int]) -> bool:
    """Whether the guilty ranks' stages have enough other files."""
    stages = {case.job.stage(rank) for wrong in case.wrong for one in wrong.effects for rank in one.ranks}
    return all(sum(case.job.stage(rank) == stage for rank in files) > PEERS for stage in stages)


def _cut(events: list[Event], kernels: int | None) -> list[Event]:
    """The first kernels before any communication."""
    if kernels is None:
        return events
    first = next((place for place, one in enumerate(events) if one.number >= 0), len(events))
    return events[: min(kernels, first)]


def _clocks(case: Plan, rng: np.random.Generator) -> list[Clock]:
    """Clocks of hosts set by one time server, slightly off; now and then one by seconds. Each runs at its own rate."""
    hosts = -(-case.job.ranks // case.job.per_host)
    far = 2e6 if rng.random() < 0.3 else 2e3
    ahead, drift = rng.uniform(-far, far, hosts), rng.normal(0, 10e-6, hosts)
    return [
        Clock(float(ahead[rank // case.job.per_host] + rng.normal(0, 10)), float(drift[rank // case.job.per_host]))
        for rank in range(case.job.ranks)
    ]
