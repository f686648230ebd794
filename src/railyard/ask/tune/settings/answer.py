"""What a tuning found as the document that is kept."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.settings.export import environment, tuner_table
from railyard.ask.tune.settings.judging import curves, tail_gains
from railyard.ask.tune.settings.space import value_at
from railyard.measure.result.answers.tune import TuneAnswer
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.tune.settings.cases import Kind
    from railyard.ask.tune.settings.judging import TailGain
    from railyard.ask.tune.settings.race import Design
    from railyard.ask.tune.settings.search import Tuned

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
        "stopped": found.stopped,
        "settings": found.settings,
        "recommended": found.settings if found.sure else {},
        "changes": [
            {
                "key": part.key,
                "before": value_at(written, part.key),
                "after": found.settings[part.key],
                "alone": part.alone,
                "without": part.without,
            }
            for part in found.parts
        ],
        "seen": {"default_s": found.default_s, "tuned_s": found.tuned_s, "gain": 1.0 - found.tuned_s / found.default_s},
        "unseen": _unseen(found) if len(found.unseen) > 1 else None,
        "trials": [_trial(design, kept=design.settings == found.settings) for design in found.tried],
        "environment": environment(found),
        "tuner": tuner_table(found),
    }
    return TuneAnswer.model_validate_json(json.dumps(plain, ensure_ascii=False, allow_nan=False))


def _unseen(found: Tuned) -> dict[str, Any]:
    mean, low, high = found.gain()
    pairs = [pair for _, pair in found.unseen]
    return {
        "gain": mean,
        "low": low,
        "high": high,
        "confidence": CONFIDENCE,
        "kinds": [_kind(found, kind) for kind in found.kinds],
        "cases": [
            {
                "kind": case.kind,
                "seed": case.seed,
                "load": case.load,
                "job": case.words,
                "default_s": default.step_s,
                "tuned_s": tuned.step_s,
            }
            for case, (default, tuned) in found.unseen
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


def _kind(found: Tuned, kind: Kind) -> dict[str, Any]:
    mean, low, high = found.gain(kind)
    ends = (low, high) if math.isfinite(low) else (None, None)
    return {"kind": kind, "count": len(found.gains(kind)), "gain": mean, "low": ends[0], "high": ends[1]}


def _trial(design: Design, *, kept: bool) -> dict[str, Any]:
    change = design.mean - 1.0 if design.ratios and not design.error else None
    return {
        "settings": design.settings,
        "draws": len(design.ratios),
        "change": change,
        "error": design.error,
        "kept": kept,
    }


def _tail(one: TailGain) -> dict[str, Any]:
    mean, low, high = one.gain
    plain = {"what": one.what, "tail": one.tail, "before_us": one.before_us, "after_us": one.after_us}
    return {**plain, "gain": mean, "low": low, "high": high}
