"""What a vendor's pilot pod has to show before a plan's recommendation is bought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.expected import collective_s
from railyard.ask.observe.kernels import BUSBW
from railyard.ask.plan import service
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.confidence import compared
from railyard.ask.plan.outcome import layout_of
from railyard.ask.plan.price import Goodputs
from railyard.ask.plan.uncertainty import Uncertainty, worth
from railyard.kit.errors import InputError
from railyard.measure.result.section import EIGHT_OF_TEN
from railyard.measure.result.step import EXPOSED
from railyard.work.study import compose, study
from railyard.work.study.folder import slug
from railyard.work.training.likely import PARALLELISM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.objectives import Constraint
    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.plan.uncertainty import DesignChoice
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.section import ServingSection
    from railyard.work.training.spec import Layout

    F = NDArray[np.float64]


REACH = 4.0
"""Standard deviations of a result within which flips are looked for."""

_STEPS = 800
_FINER = 3
"""Times that the interval in which the best design changes is cut into `_STEPS` again."""


@dataclass(frozen=True)
class PilotTest:
    """A test of a pilot pod.

    Attributes:
        kind: `collective`, `step` or `service`.
        choice: Number of the choice whose design the pod is of.
        weights: Of each factor in the logarithm of time over the one predicted.
    """

    name: str
    kind: str
    choice: int
    servers: int
    ranks: int
    unit: str
    rate: bool
    predicted: float
    weights: Mapping[str, float]
    collective: str = ""
    command: str = ""

    def error(self, value: float) -> float:
        """Logarithm of the time measured over the one predicted."""
        return math.log(value / self.predicted) * (-1.0 if self.rate else 1.0)

    def value(self, error: float) -> float:
        """The value at that logarithm."""
        return self.predicted * math.exp(-error if self.rate else error)


@dataclass(frozen=True)
class Flip:
    """A result at which another design becomes the best.

    Attributes:
        above: Whether the other design is the best above it, rather than below.
        chance: That the result lies where the recommendation is another.
    """

    value: float
    above: bool
    choice: int
    chance: float


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Factors of the model with what is known of them.

    Attributes:
        mean: float64[factors], as logarithms.
        covariance: float64[factors, factors].
    """

    names: tuple[str, ...]
    mean: F
    covariance: F

    @classmethod
    def of(cls, doubts: Uncertainty) -> Beliefs:
        """The prior: factors are independent."""
        found = {name: one for name, one in sorted(doubts.factors.items()) if one.kind == "model"}
        mean = np.array([(one.low + one.high) / 2 for one in found.values()])
        half = np.array([(one.high - one.low) / 2 for one in found.values()])
        return cls(tuple(found), mean, np.diag((half / EIGHT_OF_TEN) ** 2))

    def rows(self, tests: Sequence[PilotTest]) -> F:
        """float64[tests, factors]: what each test observes."""
        return np.array([[test.weights.get(name, 0.0) for name in self.names] for test in tests])

    def spread(self, test: PilotTest) -> tuple[float, float]:
        """Mean and standard deviation of the error that a test would show."""
        row = self.rows([test])[0]
        return float(row @ self.mean), math.sqrt(max(float(row @ self.covariance @ row), 0.0))

    def gain(self, tests: Sequence[PilotTest]) -> F:
        """float64[factors, tests]: by how much each factor moves for each unit of a result beyond its mean."""
        rows = self.rows(tests)
        found: F = self.covariance @ rows.T @ np.linalg.pinv(rows @ self.covariance @ rows.T, hermitian=True)
        return found

    def moved(self, tests: Sequence[PilotTest], errors: Sequence[float]) -> dict[str, float]:
        """Shifts of each factor's mean when tests show these errors."""
        beyond = np.array(errors) - self.rows(tests) @ self.mean
        return dict(zip(self.names, (self.gain(tests) @ beyond).tolist(), strict=True))

    def given(self, tests: Sequence[PilotTest], errors: Sequence[float]) -> Beliefs:
        """The same once tests have shown these errors."""
        moved = np.array(list(self.moved(tests, errors).values()))
        left = self.covariance - self.gain(tests) @ self.rows(tests) @ self.covariance
        return Beliefs(self.names, self.mean + moved, (left + left.T) / 2)

    def redrawn(self, values: Mapping[str, F], tests: Sequence[PilotTest], errors: Sequence[float]) -> dict[str, F]:
        """Draws of all factors, those of the model given what tests have shown."""
        drawn = np.array([values[name] for name in self.names])
        drawn = drawn + self.gain(tests) @ (np.array(errors)[:, None] - self.rows(tests) @ drawn)
        return {**values, **dict(zip(self.names, drawn, strict=True))}


def typical(planned: PlannedDesigns, moved: Mapping[str, F]) -> F:
    """float64[choices, n]: the first objective where factors lie so far from their middle, less is better.

    Designs that miss a constraint there are infinite, unless all do.
    """
    what, choices, shares = planned.objectives[0], planned.choices, planned.shares
    count = len(next(iter(moved.values()), (0.0,)))
    pairs = zip(compared(choices, moved, planned.objectives, shares), choices, strict=True)
    figures = [row.get(what.name, np.full(count, one.figures[what.name])) for row, one in pairs]
    costs: F = what.sign * np.array(figures)
    bounds = [one for one in planned.constraints if one.figure]
    if bounds:
        kept = np.array([_kept(planned, choice, bounds, moved, count) for choice in choices])
        costs = np.where(kept | ~kept.any(axis=0), costs, np.inf)
    return costs


def best(planned: PlannedDesigns, moved: Mapping[str, F]) -> NDArray[np.int64]:
    """int64[n]: the best choice there; ties as the plan breaks them."""
    costs = typical(planned, moved)
    least = costs.min(axis=0)
    first: NDArray[np.int64] = np.argmax(costs <= least + 1e-9 * np.abs(least), axis=0)
    return first


def _kept(
    planned: PlannedDesigns, choice: DesignChoice, bounds: Sequence[Constraint], moved: Mapping[str, F], count: int
) -> NDArray[np.bool_]:
    """bool[n]: whether a choice keeps every bound."""
    found = worth(choice, moved, planned.shares, Goodputs()).by_demand
    pairs = list(zip(found, choice.outcomes, strict=True))
    kept = np.ones(count, bool)
    for bound in bounds:
        figures = [row.get(bound.figure, np.full(count, one.figures[bound.figure])) for row, one in pairs]
        columns = np.array(figures).T
        kept &= [bound.keeps([{bound.figure: value} for value in column], frozenset()) for column in columns]
    return kept


def flips(planned: PlannedDesigns, beliefs: Beliefs, test: PilotTest) -> tuple[Flip, ...]:
    """Results on either side of the expected one at which another design is the best, the likelier first."""
    mean, deviation = beliefs.spread(test)
    if deviation <= 0.0:
        return ()
    gain = beliefs.gain([test])[:, 0]

    def winners(errors: F) -> NDArray[np.int64]:
        return best(planned, {name: each * errors for name, each in zip(beliefs.names, gain, strict=True)})

    ends = np.linspace(-REACH, REACH, 2 * _STEPS + 1) * deviation
    chosen = winners(ends)
    now, law = int(winners(np.zeros(1))[0]), NormalDist(0.0, deviation)
    found = []
    for way in (-1, 1):
        side = ends * way >= 0.0
        errors, there = ends[side][::way], chosen[side][::way]
        other = np.flatnonzero(there != now)
        if not len(other):
            continue
        at = int(other[0])
        near, far = errors[at - 1] if at else 0.0, errors[at]
        for _ in range(_FINER):
            between = np.linspace(near, far, _STEPS + 1)
            first = int(np.flatnonzero(winners(between) != now)[0])
            near, far = between[max(first - 1, 0)], between[first]
        width = ends[1] - ends[0]
        beyond = sum(law.pdf(float(one)) for one in errors[other]) * width
        chance = float(min(beyond, 1.0 - law.cdf(abs(float(far)))))
        design = int(winners(np.array([far]))[0])
        found.append(Flip(test.value(mean + float(far)), (way > 0) != test.rate, design, chance))
    return tuple(sorted(found, key=lambda one: -one.chance))


_PERF = {"all_reduce": "all_reduce_perf", "all_to_all": "alltoall_perf"}

SIZE_BYTES = 1 << 28
"""Size of the collective: 256 MiB, where rates and not floors set the time."""

LEAST_CHANCE = 0.001
"""Tests of designs other than the recommended one are listed from this chance to change the recommendation."""


@dataclass(frozen=True)
class PilotSheet:
    """Tests of a plan.

    Attributes:
        beliefs: What is known of the model's error before any test.
        rows: Tests with the results at which another design is best, those first that change the choice most likely.
    """

    planned: PlannedDesigns
    beliefs: Beliefs
    rows: tuple[tuple[PilotTest, tuple[Flip, ...]], ...]


def sheet(planned: PlannedDesigns, servers: int | None, progress: Callable[[str, float], None]) -> PilotSheet:
    """Sheet of tests on a pilot pod.

    Args:
        planned: A plan that was worked out to its end.
        servers: Of a pod; None: the fewest.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The job of the recommended design does not fit so many servers.
    """
    beliefs = Beliefs.of(Uncertainty.of(planned.choices, planned.closed_form[:2]))
    bench, rows, seen = DesignBench(planned.space), [], set()
    for number, choice in enumerate(planned.choices):
        progress(f"a pilot of {choice.name}", number / len(planned.choices))
        for names, make in _kinds(choice):
            if names in seen or not _matters(planned, beliefs, number, names):
                continue
            seen.add(names)
            trial = make(planned, bench, number, servers)
            rows.append((trial, flips(planned, beliefs, trial)))
    rows.sort(key=lambda row: -sum(flip.chance for flip in row[1]))
    return PilotSheet(planned, beliefs, tuple(rows))


def _kinds(choice: DesignChoice) -> Iterator[tuple[frozenset[str], Callable[..., PilotTest]]]:
    """What can be tested of a design: names of the factors, and what makes the test."""
    missed = choice.missed[0]
    yield (
        frozenset(one.factor.name for one in missed if not one.network),
        _service if choice.engine == "serving" else _step,
    )
    network = frozenset(one.factor.name for one in missed if one.network)
    if network and choice.hardware[0].cluster.servers > 1:
        yield network, _collective


def _matters(planned: PlannedDesigns, beliefs: Beliefs, number: int, names: frozenset[str]) -> bool:
    """Whether a test that shows the sum of some factors may change the choice; of the recommended design all do."""
    weights = dict.fromkeys(names, 1.0)
    bare = PilotTest("", "", number, servers=0, ranks=0, unit="", rate=False, predicted=1.0, weights=weights)
    return number == 0 or sum(flip.chance for flip in flips(planned, beliefs, bare)) >= LEAST_CHANCE


def _heaviest(planned: PlannedDesigns) -> int:
    """The demand with the largest share, under which a pod is tested."""
    return int(np.argmax(planned.shares))


def _step(planned: PlannedDesigns, bench: DesignBench, number: int, servers: int | None) -> PilotTest:
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
    return PilotTest(
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


def _pod(
    planned: PlannedDesigns, bench: DesignBench, choice: DesignChoice, demand: int, servers: int | None
) -> tuple[Draft, Layout, int]:
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


def _collective(planned: PlannedDesigns, bench: DesignBench, number: int, servers: int | None) -> PilotTest:
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
    return PilotTest(
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


def _service(planned: PlannedDesigns, bench: DesignBench, number: int, servers: int | None) -> PilotTest:
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
    return PilotTest(
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
