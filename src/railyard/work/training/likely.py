"""Likely values of what a description of a layout leaves open: virtual stages, micro-batch, recomputation.

Whoever runs a job tunes these by hand, so that the likely micro-batch and recomputation are those of the fastest
layout that fits. Interleaving is left alone until it is worth the trouble: likely is the least that comes within
`WORTH` of the fastest. The choice looks at the accelerators and their NICs alone: jobs that differ in their network
get one layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.measure.numbers import counted
from railyard.work.training.designs import estimate
from railyard.work.training.layout import MICRO_BATCHES, check, virtual_sizes, with_least_recomputation
from railyard.work.training.memory import LayoutError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from railyard.measure.result.reading import Result
    from railyard.measure.result.variants import TrainingVariant
    from railyard.model.machine import Machine
    from railyard.work.training.spec import Layout, Training

PARALLELISM = "workload.training.parallelism"
"""Where a scenario writes its layout."""
WORTH = 0.2
"""Share of the fastest step that a likely layout is slower, at most. Megatron-LM's published weak scaling on H100
leaves 9 to 16 % to interleaving and does without; Llama 3 405B would take 26 to 80 % longer without it, and has it."""


@dataclass(frozen=True)
class Likely:
    """The job with likely values of what was left out.

    Attributes:
        fastest, slowest: Steps of the likely layouts at the two ends, over that of the job.
    """

    training: Training
    fastest: float = 1.0
    slowest: float = 1.0


def likely(training: Training, machine: Machine, left_out: Collection[str]) -> Likely:
    """The job with likely values of keys of its layout; as it is where nothing fits.

    Args:
        training: The job; its values of the keys that were left out do not count.
        machine: On which it runs.
        left_out: `vp`, `micro_batch`, `recompute`.
    """
    tried = [training.replace(layout=layout) for layout in _choices(training, left_out)] if left_out else []
    fit = with_least_recomputation(tried, machine.accelerator, may_recompute="recompute" in left_out)[0]
    if len(fit) <= 1:
        return Likely(fit[0] if fit else training)
    steps_s = estimate(fit, [machine] * len(fit)).step_s
    near = steps_s <= (1.0 + WORTH) * steps_s.min()
    stages = np.array([job.layout.vp for job in fit])
    chosen = int(np.argmin(np.where(stages == stages[near].min(), steps_s, np.inf)))
    ends = (float(end / steps_s[chosen]) for end in (steps_s.min(), steps_s[near].max()))
    return Likely(fit[chosen], *ends)


def chosen_keys(result: Result, variant: TrainingVariant) -> frozenset[str]:
    """Keys of the layout that a result's scenario left open, and that were chosen; none where `auto` chose it all."""
    scenario: Mapping[str, Any] = result.scenario
    written = scenario.get("workload", {}).get("training", {}).get("parallelism", "auto")
    given = dict(written) if isinstance(written, Mapping) else {"auto": True}
    for key, value in variant.settings.items():
        if key == PARALLELISM:
            given = dict(value) if isinstance(value, Mapping) else {"auto": True}
        elif key.startswith(f"{PARALLELISM}."):
            given[key.removeprefix(f"{PARALLELISM}.")] = value
    pp: Any = variant.layout.parallelism["pp"]
    return frozenset() if given.get("auto") else open_keys(given, pp)


def chosen_words(layout: object, vp: int, left_out: Collection[str]) -> str:
    """`Layout: TP 4 PP 1 DP 16 micro-batch 4 ZeRO-1 (micro-batch chosen)`, of a layout or its words."""
    words = {
        "micro_batch": "micro-batch chosen",
        "vp": f"{counted(vp, 'virtual stage')} assumed; the band has other numbers in it",
    }
    return f"Layout: {layout} ({', '.join(words[key] for key in sorted(left_out))})"


def open_keys(given: Collection[str], pp: int) -> frozenset[str]:
    """Keys that a written layout leaves open: its micro-batch, and in a pipeline without a schedule its virtual stages.

    Args:
        given: Keys that are written, by the names of `Layout`.
        pp: Pipeline stages that they make.
    """
    vp = pp > 1 and not {"vp", "schedule"} & set(given)
    return frozenset({name for name, left in (("vp", vp), ("micro_batch", "micro_batch" not in given)) if left})


def filled_in(given: Collection[str], layout: Layout) -> Iterator[str]:
    """What stands for the keys of a written layout that it leaves open, in words."""
    left_out = open_keys(given, layout.pp)
    if left_out:
        yield chosen_words(layout, layout.vp, left_out)
    if "vp" in left_out:
        yield (
            f"parallelism.vp: {layout.vp}, the fewest stages within {100 * WORTH:.0f} % of the fastest that fits;"
            " the band has the others in it"
        )
    if "micro_batch" in left_out:
        yield f"parallelism.micro_batch: {layout.micro_batch}, the fastest that fits"


def _choices(training: Training, left_out: Collection[str]) -> Iterator[Layout]:
    layout, vps = training.layout, [training.layout.vp]
    for micro_batch in MICRO_BATCHES if "micro_batch" in left_out else (layout.micro_batch,):
        batches = layout.replica_batch // micro_batch
        if "vp" in left_out and "interleaved" in training.software.schedules:
            vps = virtual_sizes(training.model, layout.pp, batches)
        for vp in vps:
            changes: dict[str, Any] = {"micro_batch": micro_batch, "vp": vp}
            if layout.schedule == "1f1b" and vp > 1:
                changes["schedule"] = "interleaved"
            one = layout.replace(**changes)
            try:
                check(training.model, one, training.seq_len, layout.ranks)
            except LayoutError:
                continue
            yield one
