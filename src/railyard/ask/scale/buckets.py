"""Gradient buckets as the traced framework sizes them on another number of data-parallel ranks.

Megatron-Core's buckets grow with the ranks; PyTorch's, and layers of FSDP, keep their size. On more ranks, neighbouring
buckets of the trace become one: their reductions one behind the last of them, their gathers one in front of the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.ask.scale.layout import CONTEXT, EXPERT, GROWS, PIPELINE
from railyard.ask.scale.rescale import Unscaled
from railyard.work.training.profiles import profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from railyard.ask.scale.layout import Grid
    from railyard.ask.scale.steps import CommCall, TracedStep
    from railyard.catalog import Accelerator
    from railyard.work.training.spec import SoftwareProfile

MEGATRON, PYTORCH = "Megatron-Core", "PyTorch"
_PROFILE = "megatron-2026"
_LEAST_BYTES = 1 << 20
"""Smaller reductions are of losses and norms."""
_WIDTHS = (4, 2)
"""Bytes of a gradient."""
_REDUCTIONS, _GATHER = ("reduce_scatter", "all_reduce"), "all_gather"
UNCUT = "the trace does not say where its buckets would be cut on fewer ranks"


@dataclass(frozen=True)
class Rebucketed:
    """Steps with the buckets of another number of ranks.

    Attributes:
        words: What became of buckets; empty: nothing.
        kept: Buckets that should have another size and keep theirs.
    """

    steps: dict[int, TracedStep]
    words: str = ""
    kept: tuple[Unscaled, ...] = ()


def framework_of(purposes: Iterable[str]) -> str:
    """The framework that names its process groups so; empty: not known."""
    words = set(purposes) - {"", "undefined"}
    if any(one.endswith(("_PARALLEL_GROUP", "_PARALLEL_GROUP_WITH_CP")) for one in words):
        return MEGATRON
    return PYTORCH if any(one == "default_pg" or one.startswith("mesh_") for one in words) else ""


def rebucketed(
    steps: Mapping[int, TracedStep], traced: Grid, target: Grid, framework: str, accelerator: Accelerator
) -> Rebucketed:
    """The steps with gradient buckets as the framework sizes them on the target.

    Args:
        steps: The same step of the traced ranks.
        traced: Their grid.
        target: The same grid with another number of ranks.
        framework: Of `framework_of`.
        accelerator: Of the target, for which the rule is looked up.
    """
    found = Rebucketed(dict(steps))
    if framework != MEGATRON:
        return found
    software = profile(_PROFILE, accelerator)
    before, after = (_bucket(software, grid) for grid in (traced, target))
    if before == after:
        return found
    had = has = 0
    cut = [step for rank, step in steps.items() if not (software.first_stage_buckets and _stage(traced, rank))]
    for step in cut:
        runs = []
        for calls in _by_group(traced, step).values():
            reductions = _reductions(step, calls)
            parts = list(_parts(step, reductions, before, after, pipelined=_stage(traced, -1)))
            runs += [[reductions[at] for at in part] for part in parts]
            gathers = [task for task in calls if _call(step, task).kind == _GATHER][::-1]
            if len(gathers) == len(reductions):  # in the order of forward passes, which is the reverse
                runs += [[gathers[at] for at in reversed(part)] for part in parts]
            had += len(reductions)
            has += len(reductions) - sum(len(part) - 1 for part in parts)
        found.steps[step.rank] = _merged(step, runs)
    had, has = (-(-one // max(len(cut), 1)) for one in (had, has))
    if after < before and had:
        return replace(found, kept=(Unscaled("buckets of gradients", "", UNCUT, had, 0.0),))
    words = f"{framework} reduces {had:,} of at least {before / 1e6:,.0f} M parameters as {has:,} of"
    return replace(found, words=f"{words} {after / 1e6:,.0f} M" if had > has else "")


def _bucket(software: SoftwareProfile, grid: Grid) -> int:
    """Parameters of a full bucket."""
    ranks = 1
    for axis in grid.axes:
        ranks *= axis.size if axis.role in (*GROWS, CONTEXT, EXPERT) else 1
    return max(software.bucket_parameters, software.bucket_parameters_per_rank * ranks)


def _stage(grid: Grid, rank: int) -> bool:
    """Whether a rank is on another pipeline stage than the first; -1: the last rank."""
    return any(axis.role == PIPELINE and rank // axis.stride % axis.size for axis in grid.axes)


def _by_group(grid: Grid, step: TracedStep) -> dict[str, list[int]]:
    """Large calls of groups that grow, by group."""
    found: dict[str, list[int]] = {}
    for task, call in enumerate(step.calls):
        kind = None if call is None else grid.groups.get((step.rank, call.group))
        if call is None or kind is None or call.size_bytes < _LEAST_BYTES:
            continue
        if any(grid.axes[at].role in GROWS for at in kind.axes):
            found.setdefault(call.group, []).append(task)
    return found


def _call(step: TracedStep, task: int) -> CommCall:
    call = step.calls[task]
    assert call is not None
    return call


def _reductions(step: TracedStep, calls: Sequence[int]) -> list[int]:
    return [task for task in calls if _call(step, task).kind in _REDUCTIONS]


def _parts(
    step: TracedStep, reductions: Sequence[int], before: int, after: int, *, pipelined: bool
) -> Iterator[list[int]]:
    """Places of reductions that become one: up to a full bucket of the new size, never beyond the last of a model.

    A bucket that is not full is the last of its model. Of a pipeline, later models of a rank have one bucket each.
    """
    sizes = [_call(step, task).size_bytes for task in reductions]
    width = next((one for one in _WIDTHS if all(size >= one * before for size in sizes[:-1])), 0)
    part: list[int] = []
    for at, size in enumerate(sizes if width and after > before else ()):
        if not (pipelined and size >= 2 * width * before):
            part.append(at)
        full = sum(sizes[one] for one in part) >= width * after or size < width * before or at not in part
        if full or at + 1 == len(sizes) or _is_waited_for(step, reductions, at):
            if len(part) > 1:
                yield part
            part = []


def _is_waited_for(step: TracedStep, calls: Sequence[int], at: int) -> bool:
    """Whether a computation waits for a reduction before the next reduction starts."""
    return at + 1 < len(calls) and any(
        earlier == calls[at] and later < calls[at + 1] and step.calls[later] is None for later, earlier in step.waits
    )


def _merged(step: TracedStep, runs: Sequence[Sequence[int]]) -> TracedStep:
    """The step with each run of calls as one; the others take no time and nothing waits for them."""
    calls, kept = list(step.calls), {}
    for run in runs:
        one = run[0] if _call(step, run[0]).kind == _GATHER else run[-1]
        every = [_call(step, task) for task in run]
        calls[one] = replace(
            every[0],
            size_bytes=sum(call.size_bytes for call in every),
            measured_ns=sum(call.measured_ns for call in every),
        )
        for task in run:
            if task != one:
                calls[task], kept[task] = None, one

    def moved(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        more = [(later, kept[earlier]) for later, earlier in pairs if earlier in kept and later > kept[earlier]]
        return list(dict.fromkeys([*pairs, *more]))

    return replace(step, calls=calls, waits=moved(step.waits), assumed=moved(step.assumed))
