"""Layouts: which are valid, which fit, which is fastest.

Tensor, data, context and expert parallelism must divide; pipeline stages may be uneven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, Problem
from railyard.kit.quantities import format_memory
from railyard.work.training.columns import Columns
from railyard.work.training.designs import estimate
from railyard.work.training.memory import LayoutError, fits, fullest_bytes, memory
from railyard.work.training.parameters import check_precision
from railyard.work.training.spec import SCHEDULES, Layout, Training
from railyard.work.training.stages import PipelineRanks, layer_counts
from railyard.work.training.sync.check import communicates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Model
    from railyard.model.machine import Machine
    from railyard.work.training.memory import MemoryTable
    from railyard.work.training.spec import Precision, Schedule, SoftwareProfile

# Modules in the order of the memory that their recomputation saves for its time (Megatron-Core's
# `--recompute-modules`).
_MODULES_DENSE = ("layernorm", "mlp")
_MODULES_EXPERTS = ("layernorm", "moe_act", "mla_up_proj")
MICRO_BATCHES = (1, 2, 4, 8, 16)
"""Sizes that are tried."""
# A sequence is cut no finer than this many tokens a rank: below, ring exchanges cost more than they save.
_SMALLEST_CHUNK = 2048
_NAMES = ("tp", "pp", "dp", "cp", "ep", "vp", "zero", "micro_batch")


def check(model: Model, layout: Layout, seq_len: int, accelerators: int) -> None:
    """Refuses a layout whose numbers do not divide.

    Raises:
        LayoutError: With everything that is wrong.
    """
    problems = [*_divisions(model, layout, seq_len), *_batches(layout)]
    if layout.ranks != accelerators:
        product = f"tp {layout.tp} x pp {layout.pp} x dp {layout.dp} x cp {layout.cp} = {layout.ranks}"
        problems.insert(
            0, Problem(f"{product} ranks, but the cluster has {accelerators} accelerators", key="parallelism.dp")
        )
    try:
        layer_counts(model.layers, layout.pp * layout.vp, model.mtp_layers)
    except InputError as error:
        problems += error.problems
    if problems:
        refused = LayoutError(problems[0].message)
        refused.problems = tuple(problems)
        refused.args = ("\n".join(problem.render() for problem in problems),)
        raise refused


def _divisions(model: Model, layout: Layout, seq_len: int) -> Iterator[Problem]:
    def uneven(key: str, size: int, what: str, total: int) -> Problem:
        near = ", ".join(str(n) for n in _divisors(total) if n <= 4 * size) or "1"
        return Problem(
            f"{size} does not divide the {total} {what}", key=f"parallelism.{key}", found=str(size), allowed=near
        )

    if model.heads % layout.tp:
        yield uneven("tp", layout.tp, "attention heads", model.heads)
    if model.kv_heads % layout.tp and layout.tp % model.kv_heads:
        yield uneven("tp", layout.tp, "key-value heads", model.kv_heads)
    for width in sorted({model.ffn, *(kind.ffn for kind in model.kinds)}):
        if width % layout.tp:
            yield uneven("tp", layout.tp, "columns of the feed-forward layer", width)
            break
    if seq_len % layout.cp:
        yield uneven("cp", layout.cp, "tokens of a sequence", seq_len)
    if layout.ep > 1 and not model.experts:
        yield Problem(f"{model.name} has no experts", key="parallelism.ep", found=str(layout.ep), allowed="1")
    elif layout.ep > 1 and model.experts % layout.ep:
        yield uneven("ep", layout.ep, "experts", model.experts)
    inner = layout.tp * layout.cp * layout.dp
    if inner % (layout.ep * layout.expert_tp):
        yield uneven("ep", layout.ep * layout.expert_tp, "ranks of a pipeline stage (tp x cp x dp)", inner)


def _batches(layout: Layout) -> Iterator[Problem]:
    if layout.global_batch % layout.dp:
        text = f"the global batch of {layout.global_batch} sequences does not divide over {layout.dp} replicas"
        yield Problem(
            text, key="global_batch", found=str(layout.global_batch), allowed=f"a multiple of the {layout.dp} replicas"
        )
    elif layout.replica_batch % layout.micro_batch:
        text = f"micro-batch {layout.micro_batch} does not divide the {layout.replica_batch} sequences of a replica"
        near = ", ".join(map(str, _divisors(layout.replica_batch)))
        yield Problem(text, key="parallelism.micro_batch", found=str(layout.micro_batch), allowed=near)
    if layout.schedule == "interleaved" and layout.vp < 2:
        yield Problem(
            "an interleaved schedule needs two virtual stages or more", key="parallelism.vp", found=str(layout.vp)
        )
    if layout.vp > 1 and layout.pp < 2:
        yield Problem(
            "virtual stages are parts of pipeline stages, and there is one stage",
            key="parallelism.vp",
            found=str(layout.vp),
            allowed="1, or a `pp` of at least 2",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search over layouts may try.

    Attributes:
        domain: Ranks of a scale-up domain; tensor parallelism stays inside.
        fixed: What is given, by the names of `Layout` (tp, pp, dp, cp, ep, vp, zero, micro_batch, schedule, recompute).
        schedules: That the software has; a schedule or virtual stages that are given need not be among them.
    """

    accelerators: int
    domain: int
    global_batch: int
    seq_len: int
    fixed: Mapping[str, int | str]
    schedules: Sequence[Schedule] = SCHEDULES


def layouts(model: Model, search: Search) -> Iterator[Layout]:
    """All layouts of a model that a search may try, valid ones only."""
    for tp in _choices(search, "tp", _tensor_sizes(model, search)):
        for cp in _choices(search, "cp", _context_sizes(search)):
            for pp in _choices(search, "pp", _pipeline_sizes(model, search, tp * cp)):
                dp, rest = divmod(search.accelerators, tp * cp * pp)
                if rest or not dp or search.global_batch % dp or dp not in _choices(search, "dp", [dp]):
                    continue
                yield from _inner(model, search, {"tp": tp, "cp": cp, "pp": pp, "dp": dp})


def _inner(model: Model, search: Search, sizes: dict[str, int]) -> Iterator[Layout]:
    """The rest of a layout but recomputation: experts, micro-batch, virtual stages, schedule, sharding."""
    local, pp = search.global_batch // sizes["dp"], sizes["pp"]
    stage = sizes["tp"] * sizes["cp"] * sizes["dp"]
    experts = [n for n in _divisors(model.experts) if stage % n == 0] if model.experts else [1]
    for ep in _choices(search, "ep", experts):
        for micro in _choices(search, "micro_batch", [n for n in MICRO_BATCHES if local % n == 0]):
            for vp in _choices(search, "vp", virtual_sizes(model, pp, local // micro)):
                for zero in _choices(search, "zero", [1, 3] if pp == 1 else [1]):
                    for schedule in _schedules(model, search, pp, vp, local // micro):
                        further: dict[str, Any] = {"recompute": search.fixed.get("recompute", "none"), **sizes}
                        layout = Layout(
                            **further,
                            ep=ep,
                            micro_batch=micro,
                            vp=vp,
                            zero=zero,
                            global_batch=search.global_batch,
                            schedule=schedule,
                            overlap_tensor=sizes["tp"] > 1,
                        )
                        if _valid(model, layout, search):
                            yield from _overlapped(layout)


def _overlapped(layout: Layout) -> Iterator[Layout]:
    """The layout with expert exchanges under another micro-batch and without; DualPipe always hides them."""
    if layout.schedule != "dualpipe" or layout.ep == 1:
        yield layout
    if layout.ep > 1:
        yield layout.replace(overlap_expert=True)


def _schedules(model: Model, search: Search, pp: int, vp: int, micro_batches: int) -> list[Schedule]:
    """Pipeline schedules that the sizes allow; `schedule/` says what each needs."""
    if "schedule" in search.fixed:
        return [name for name in SCHEDULES if name == search.fixed["schedule"]]
    plain: Schedule = "interleaved" if vp > 1 else "1f1b"
    if pp == 1:
        return [plain]
    dual = vp == 1 and model.experts > 0 and pp % 2 == 0 and micro_batches % 2 == 0 and micro_batches >= 2 * pp
    fitting: tuple[Schedule, ...] = (plain, "zero-bubble", "dualpipe") if dual else (plain, "zero-bubble")
    return [name for name in fitting if name in search.schedules or (name == plain and "vp" in search.fixed)]


def _valid(model: Model, layout: Layout, search: Search) -> bool:
    try:
        check(model, layout, search.seq_len, search.accelerators)
    except LayoutError:
        return False
    return True


def _choices(search: Search, name: str, tried: Sequence[int]) -> Sequence[int]:
    given = search.fixed.get(name)
    return tried if given is None else [int(given)]


_SPARE = 8
"""One domain more in so many is taken where all are filled alike then: 64 of the 72 accelerators of a rack."""


def domain_use(layout: Layout, domain: int, step: int) -> int:
    """How many ranks of each scale-up domain to use so that no tensor or expert group straddles two.

    Domains are filled alike where that takes at most one more in eight: a ring over domains is as fast as the one with
    the fewest members. Operators place jobs so (Slurm's `--segment=16`: 64 of 72 accelerators of a rack).

    Args:
        layout: Of the job; ranks are numbered tensor-parallel first, experts over the same ranks.
        domain: Ranks of a domain.
        step: Ranks of a server; servers are used whole.

    Returns:
        The largest number that the groups divide (or, of groups larger than a domain, that divides them) and that
        fills all domains alike; else the largest that the groups divide; all of the domain when there is none.
    """
    spans = {layout.tp, layout.ep * layout.expert_tp}
    sizes = range(domain // step * step, 0, -step)
    whole = [use for use in sizes if all(use % span == 0 or span % use == 0 for span in spans)]
    if not whole or layout.ranks <= whole[0]:
        return whole[0] if whole else domain
    fewest = -(-layout.ranks // whole[0])
    alike = (use for use in whole if layout.ranks % use == 0 and layout.ranks // use <= fewest + fewest // _SPARE)
    return next(alike, whole[0])


def _tensor_sizes(model: Model, search: Search) -> list[int]:
    return [n for n in _divisors(model.heads) if n <= min(search.domain, 16) and search.accelerators % n == 0]


def _context_sizes(search: Search) -> list[int]:
    most = max(1, search.seq_len // _SMALLEST_CHUNK)
    return [2**n for n in range(int(math.log2(most)) + 1) if 2**n <= 64]


def _pipeline_sizes(model: Model, search: Search, inner: int) -> list[int]:
    stages = search.accelerators // inner
    return [n for n in _divisors(stages) if n <= min(model.layers + 2, 64)]


def virtual_sizes(model: Model, pp: int, micro_batches: int) -> list[int]:
    """Every number of virtual stages a rank that comes out even, embedding and head counted as layers or not.

    Interleaving wants whole rounds of micro-batches.
    """
    if pp == 1 or micro_batches % pp:
        return [1]
    per_stage = (model.layers + ends for ends in (0, 1, 2) if (model.layers + ends) % pp == 0)
    return sorted({1, *(n for layers in per_stage for n in _divisors(layers // pp))})


def _divisors(number: int) -> list[int]:
    return (
        [n for n in range(1, number + 1) if number % n == 0]
        if number < 4096
        else [2**n for n in range(13) if number % 2**n == 0]
    )


def auto(
    model: Model,
    machine: Machine,
    accelerators: int,
    *,
    global_batch: int,
    seq_len: int,
    software: SoftwareProfile,
    precision: Precision = "bf16",
    fixed: Mapping[str, int | str] | None = None,
) -> Layout:
    """The layout that the closed form finds fastest of those that fit, on a network without contention.

    A scenario's `parallelism: auto` simulates the best few on its own network: `railyard.work.training.fastest`.

    Args:
        model: Architecture.
        machine: On which it runs.
        accelerators: Ranks to use.
        global_batch: Sequences of a step.
        seq_len: Tokens in a sequence.
        software: Constants of the software.
        precision: Of the matrix products.
        fixed: Sizes that are given, by the names of `Layout`.

    Raises:
        InputError: The device has no units for the precision.
        LayoutError: No layout is valid, or none fits; carries the memory table of the one that comes nearest.
    """
    job = Training(
        model=model,
        layout=Layout(global_batch=global_batch),
        seq_len=seq_len,
        software=software,
        precision=precision,
    )
    good = candidates(job, machine, accelerators, fixed=fixed or {})
    seconds = estimate(good, [machine] * len(good)).step_s
    return good[int(np.argmin(seconds))].layout


def candidates(job: Training, machine: Machine, accelerators: int, *, fixed: Mapping[str, int | str]) -> list[Training]:
    """The job under every layout that divides, fits and communicates as the job wants.

    Args:
        job: Whose layout has nothing but its global batch.
        machine: On which it runs.
        accelerators: Ranks to use.
        fixed: Sizes that are given, by the names of `Layout`.

    Raises:
        InputError: The device has no units for the precision.
        LayoutError: No layout is valid, or none fits; carries the memory table of the one that comes nearest.
    """
    check_precision(job.precision, machine.accelerator)
    search = Search(
        accelerators=accelerators,
        domain=min(machine.scale_up_domain, accelerators),
        global_batch=job.layout.global_batch,
        seq_len=job.seq_len,
        fixed=dict(fixed),
        schedules=job.software.schedules,
    )
    trainings = _trainings(job, search)
    if not trainings:
        given = ", ".join(f"{name} {value}" for name, value in search.fixed.items())
        raise LayoutError(
            f"no layout of {job.model.name} divides {accelerators} accelerators and a global batch of"
            f" {job.layout.global_batch}" + (f" with {given}" if given else ""),
            key="parallelism",
        )
    may = not fixed.keys() & {"recompute", "recompute_modules"}
    good, tight = with_least_recomputation(trainings, machine.accelerator, may_recompute=may)
    if not good:
        raise _none_fits(tight, machine.accelerator)
    return good


def with_least_recomputation(
    trainings: list[Training], accelerator: Accelerator, *, may_recompute: bool = True
) -> tuple[list[Training], list[Training]]:
    """Jobs that fit, each with the least recomputation that makes it fit; and those that fit with none.

    More recomputation than it takes to fit costs time and gains nothing, so it is not tried.
    """
    if not trainings:
        return [], []
    columns, pipeline = Columns.of(trainings, [accelerator] * len(trainings)), PipelineRanks.of(trainings)
    left = np.ones(len(trainings), np.bool_)
    good: list[Training] = []
    for changes in ({}, *_recomputations(trainings[0])) if may_recompute else ({},):
        fit = left & fits(columns.recomputing(**changes), pipeline)
        good += [_recomputing(trainings[number], changes) for number in np.flatnonzero(fit)]
        left &= ~fit
    most = {"recompute": "full"} if may_recompute else {}
    return good, [_recomputing(trainings[number], most) for number in np.flatnonzero(left)]


def _recomputing(training: Training, changes: Mapping[str, Any]) -> Training:
    """The job with that recomputation added."""
    if not changes:
        return training
    layout = training.layout
    modules = dict.fromkeys((*layout.recompute_modules, *changes.get("recompute_modules", ())))
    return training.replace(layout=layout.replace(**{**changes, "recompute_modules": tuple(modules)}))


def _recomputations(training: Training) -> Iterator[dict[str, Any]]:
    """Ways to recompute, those that cost least first: the scores of unfused attention, one module more each, all."""
    if training.software.attention == "unfused":
        yield {"recompute": "selective"}
    most = _MODULES_EXPERTS if training.model.experts else _MODULES_DENSE
    modules = tuple(name for name in most if training.model.mla or name != "mla_up_proj")
    for count in range(1, len(modules) + 1):
        yield {"recompute_modules": modules[:count]}
    yield {"recompute": "full"}


def _trainings(job: Training, search: Search) -> list[Training]:
    """The job under each layout; layouts with which its way of communicating does not work are left out."""
    found = [job.replace(layout=layout) for layout in layouts(job.model, search)]
    return found if job.communication is None else [one for one in found if communicates(one)]


def _none_fits(trainings: list[Training], accelerator: Accelerator) -> LayoutError:
    columns = Columns.of(trainings, [accelerator] * len(trainings))
    training = trainings[int(np.argmin(fullest_bytes(columns, PipelineRanks.of(trainings))))]
    table = memory(training, accelerator)
    need, have = table.fullest.total_bytes, accelerator.memory_bytes
    return LayoutError(
        f"{training.model.name} does not fit on {training.layout.ranks} {accelerator.name}: the smallest layout"
        f" ({training.layout}) needs {format_memory(need)} on a device of {format_memory(have)}\n{table}",
        table=table,
        key="parallelism",
        hint="take more accelerators, or devices with more memory",
    )


def nearest_that_fit(training: Training, accelerator: Accelerator) -> tuple[Layout, ...]:
    """Three layouts on as many ranks that fit, those that differ least from the job's own first."""
    asked = training.layout
    search = Search(
        accelerators=asked.ranks,
        domain=max(accelerator.scale_up_domain, asked.tp),
        global_batch=asked.global_batch,
        seq_len=training.seq_len,
        fixed={},
        schedules=training.software.schedules,
    )
    tried = _trainings(training, search)
    good = [found.layout for found in with_least_recomputation(tried, accelerator)[0]]
    return tuple(sorted(good, key=lambda layout: _distance(layout, asked))[:3])


def places(found: Sequence[Layout]) -> NDArray[np.float64]:
    """Positions of layouts: float64[layouts, 11], doublings of each size, and steps between ways that are no sizes.

    What gathers parameters layer by layer waits by another law than what does not: each says little of the other.
    """
    sizes = [name for name in _NAMES if name != "zero"]
    rows = [
        (
            *(math.log2(getattr(one, name)) for name in sizes),
            4.0 * (one.zero == 3),
            one.recompute != "none",
            {"zero-bubble": 1.0, "dualpipe": 2.0}.get(one.schedule, 0.0),
            one.overlap_expert,
        )
        for one in found
    ]
    return np.array(rows, np.float64).reshape(len(found), len(sizes) + 4)


def _distance(one: Layout, other: Layout) -> float:
    """How far two layouts are from each other: doublings of each size; any other change counts as one."""
    sizes = [name for name in _NAMES if name != "zero"]
    doublings = math.fsum(abs(math.log2(getattr(one, name) / getattr(other, name))) for name in sizes)
    ways = ("zero", "schedule", "recompute", "recompute_modules", "overlap_tensor", "overlap_expert")
    changed: int = sum(getattr(one, name) != getattr(other, name) for name in ways)
    return doublings + changed


def check_fit(training: Training, accelerator: Accelerator) -> MemoryTable:
    """The memory table of a job that fits.

    Raises:
        InputError: The device has no units for the job's precision.
        LayoutError: It does not fit; carries the table and the nearest layouts that do.
    """
    check_precision(training.precision, accelerator)
    table = memory(training, accelerator)
    if table.fits:
        return table
    full = table.fullest
    near = nearest_that_fit(training, accelerator)
    raise LayoutError(
        f"{training.model.name} with {training.layout} does not fit: stage {full.stage} needs"
        f" {format_memory(full.total_bytes)}, {accelerator.name} has {format_memory(full.capacity_bytes)};"
        f" {_what_fits(training, accelerator, near)}\n{table}",
        table=table,
        nearest=near,
        key="parallelism",
    )


def _what_fits(training: Training, accelerator: Accelerator, near: Sequence[Layout]) -> str:
    """Keys that make a job fit: the least recomputation, else the layout that differs least, and others in words."""
    again = with_least_recomputation([training], accelerator)[0]
    if again:
        changed = again[0].layout
        key = (
            "recompute: full" if changed.recompute == "full" else _flow("recompute_modules", changed.recompute_modules)
        )
        first, others = f"with `{key}` under `parallelism` it fits", near
    elif near:
        keys = ", ".join(_flow(name, value) for name, value in near[0].parallelism().items())
        first, others = f"the nearest layout that fits is `parallelism: {{{keys}}}`", near[1:]
    else:
        return "no layout on as many ranks fits"
    return first + (f"; nearest others: {'; '.join(map(str, others))}" if others else "")


def _flow(name: str, value: object) -> str:
    """A key and its value as YAML in one line."""
    if isinstance(value, list | tuple):
        return f"{name}: [{', '.join(map(str, value))}]"
    return f"{name}: {str(value).lower() if isinstance(value, bool) else value}"
