"""Explains a serving run that was kept: parts of first tokens, where requests wait, what one more replica gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.measure.result.variants import ServedVariant, ServingVariant
from railyard.work.scenario import load
from railyard.work.serving.capacity import trial
from railyard.work.serving.measuring import as_served, objective_of
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.serving import ModelServing
    from railyard.work.serving.prepare import ServingJob

    Progress = Callable[[str, float], None]

FORMAT = "railyard/explain-serving-1"


@dataclass(frozen=True)
class ServedExplanation:
    """One variant of a serving run, explained.

    Attributes:
        name: Of the run.
        source: The file that was read.
        variants: Names of all variants of the run.
        variant: As it stands in the result, with one more replica of each pool tried.
    """

    name: str
    source: Path
    variants: tuple[str, ...]
    variant: ServedVariant

    def to_json(self) -> dict[str, object]:
        """Format `railyard/explain-serving-1`."""
        serving = self.variant.serving.model_dump(mode="json")
        wanted = ("ttft_s", "tpot_s", "ttft_parts", "slo", "queues", "trials", "pools")
        return {
            "format": FORMAT,
            "name": self.name,
            "run": str(self.source),
            "variants": list(self.variants),
            "variant": self.variant.name,
            **{key: serving[key] for key in wanted if key in serving},
        }


def explain(
    file: Path, result: Result, number: int, *, with_remedies: bool = True, progress: Progress | None = None
) -> ServedExplanation:
    """Explains a variant of a serving run.

    Args:
        file: Of the result.
        result: As it was read.
        number: Of the variant.
        with_remedies: Whether one more replica of each pool is tried where the run itself has not.
        progress: Told what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario beside the result is another one.
    """
    names = tuple(one.name for one in result.variants)
    found = result.variants[number]
    if not isinstance(found, ServedVariant):
        raise InputError("the variant answers no requests", file=file, key="variant", found=found.name)
    if with_remedies and isinstance(found, ServingVariant) and not found.serving.trials:
        found = found.model_copy(update={"serving": _tried(found.serving, _job(file, result, number), progress)})
    return ServedExplanation(result.name, file, names, found)


def _tried(serving: ModelServing, job: ServingJob, progress: Progress | None) -> ModelServing:
    trials = []
    for number, pool in enumerate(job.pools):
        if progress is not None:
            progress(f"one more replica of {pool.role}", number / len(job.pools))
        trials.append(trial(job, number, objective_of(job), as_served))
    return serving.model_copy(update={"trials": tuple(trials)})


def _job(file: Path, result: Result, number: int) -> ServingJob:
    scenario = file.parent / "scenario.yaml"
    draft = load.load(scenario) if scenario.is_file() else load.from_values(result.scenario)
    jobs: list[ServingJob] = prepare(draft)
    if len(jobs) != len(result.variants):
        text = f"the scenario beside the result has {len(jobs)} variants, the result {len(result.variants)}"
        raise InputError(text, file=file)
    return jobs[number]
