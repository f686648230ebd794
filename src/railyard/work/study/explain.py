"""Explains a run that was kept, of whatever kind: a training step as a tree, a serving run by its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.variants.serving import ServedVariant
from railyard.work.serving import explain as serving
from railyard.work.study.kept import read_result, result_file
from railyard.work.training import explain as training

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railyard.work.serving.explain import ServedExplanation
    from railyard.work.training.explain import Explanation


def explain(
    run: Path,
    *,
    variant: str | None = None,
    with_remedies: bool = True,
    progress: Callable[[str, float], None] | None = None,
) -> Explanation | ServedExplanation:
    """Explains a run.

    Args:
        run: Folder of a run, or its `result.json`.
        variant: Which; None takes the first.
        with_remedies: Whether remedies are simulated; each costs about as much as the run itself.
        progress: Told what is being done, and its share from 0 to 1.

    Raises:
        InputError: There is no such run or variant, or its files cannot be read.
    """
    file = result_file(run)
    result = read_result(file)
    if all(isinstance(one, ServedVariant) for one in result.variants):
        number = training.numbered([one.name for one in result.variants], variant)
        return serving.explain(file, result, number, with_remedies=with_remedies, progress=progress)
    return training.explain(run, variant=variant, with_remedies=with_remedies, progress=progress)
