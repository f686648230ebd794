"""What a tuning found as the document that is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.result.answers.tune import TuneAnswer
from railyard.scenario import override
from railyard.study.provenance import version
from railyard.tune.settings.export import environment, tuner_table
from railyard.tune.settings.judging import curves, tail_gains

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.tune.settings.judging import TailGain
    from railyard.tune.settings.search import Tuned

CONFIDENCE = 0.9
"""Of the interval of `Tuned.gain`."""


def answer_of(found: Tuned, written: Mapping[str, Any]) -> TuneAnswer:
    """The document.

    Args:
        found: What came of it.
        written: The scenario, defaults written out.
    """
    plain = {
        "format": "railyard-tune/1",
        "name": found.name,
        "version": version(),
        "engine": found.engine,
        "settings": found.settings,
        "recommended": found.settings if found.sure else {},
        "changes": [
            {"key": key, "before": value_at(written, key), "after": value} for key, value in found.settings.items()
        ],
        "seen": {"default_s": found.default_s, "tuned_s": found.tuned_s, "gain": 1.0 - found.tuned_s / found.default_s},
        "unseen": _unseen(found),
        "trials": [vars(trial) for trial in found.trials],
        "environment": environment(found),
        "tuner": tuner_table(found),
    }
    return TuneAnswer.model_validate_json(json.dumps(plain, ensure_ascii=False, allow_nan=False))


def _unseen(found: Tuned) -> dict[str, Any]:
    mean, low, high = found.gain
    pairs = list(found.unseen.values())
    return {
        "gain": mean,
        "low": low,
        "high": high,
        "confidence": CONFIDENCE,
        "cases": [
            {"seed": seed, "load": share, "default_s": default.step_s, "tuned_s": tuned.step_s}
            for (seed, share), (default, tuned) in found.unseen.items()
        ],
        "tails": [_tail(one) for one in tail_gains(pairs)],
        "curves": [
            {
                "what": what,
                "before_count": sum(default.times[what].count for default, _ in pairs),
                "after_count": sum(tuned.times[what].count for _, tuned in pairs),
                "before": before,
                "after": after,
            }
            for what, (before, after) in curves(pairs).items()
        ],
        "slice": max(run.slice for pair in pairs for run in pair),
    }


def _tail(one: TailGain) -> dict[str, Any]:
    mean, low, high = one.gain
    plain = {"what": one.what, "tail": one.tail, "before_us": one.before_us, "after_us": one.after_us}
    return {**plain, "gain": mean, "low": low, "high": high}


def value_at(written: Mapping[str, Any], key: str) -> Any:
    """What a scenario says under a key, short names included; None where it says nothing."""
    found: Any = written
    for step in override.full_path(key):
        if not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    return found
