"""Training steps: seeds, a checkpoint, and trials in which one resource is better, on an engine of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.measure.result.variants import TrainingVariant
from railyard.work.study.folder import write_timeline
from railyard.work.study.kind import TRIALS, StudyKind, kinds
from railyard.work.training.likely import PARALLELISM
from railyard.work.training.measuring import measure
from railyard.work.training.prepare import prepare
from railyard.work.training.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.study.tasks import Control
    from railyard.work.training.explain import Explanation
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.simulate import Simulated


def _run(job: Prepared, control: Control) -> Simulated:
    count = control.counted(job.variant.draft.scenario.repeat + TRIALS)
    return simulate(job, stop=control.stop, done=count, workers=control.workers, searched=control.searched)


def _settled(plain: dict[str, Any], result: Result) -> dict[str, Any]:
    """The scenario with the layouts that `auto` chose in place of it: one for all variants, or one for each."""
    chosen = [one for one in result.variants if isinstance(one, TrainingVariant) and one.layouts]
    if not chosen:
        return plain
    layouts = [one.layout.parallelism for one in result.variants if isinstance(one, TrainingVariant)]
    if all(layout == layouts[0] for layout in layouts):
        training = {**plain["workload"]["training"], "parallelism": layouts[0]}
        return {**plain, "workload": {**plain["workload"], "training": training}}
    each = [
        {"name": one.name, "set": {**one.settings, PARALLELISM: layout}}
        for one, layout in zip(result.variants, layouts, strict=True)
    ]
    return {**plain, "compare": {"variants": each}}


def _explain(file: Path, result: Result, variant: str | None, **how: Any) -> Explanation:
    from railyard.work.training.explain import explain

    return explain(file, result, variant, **how)


TRAINING = kinds.add(
    "training",
    StudyKind(
        name="training",
        prepare=prepare,
        engine=lambda job: job.engine.name,
        run=_run,
        measure=measure,
        write=lambda folder, simulated, found: write_timeline(folder, simulated.timeline, found.sampled_ranks),
        settled=_settled,
        parallel=True,
        faulty=True,
        explain=_explain,
        closed_form=True,
    ),
)
