"""A tuning as one call: settings searched on some draws, judged on others, and the same as a document."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from railyard.ask.tune.settings.search import Tuner
from railyard.ask.tune.settings.space import value_at
from railyard.ask.tune.settings.trials import curves, tail_gains
from railyard.collective.tuner import nccl
from railyard.kit.errors import InputError
from railyard.measure.result.answers.placement import TuneAnswer
from railyard.work.scenario import load
from railyard.work.scenario.model import TuneSection
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.ask.tune.settings.race import Design
    from railyard.ask.tune.settings.search import Tuned
    from railyard.ask.tune.settings.space import Kind
    from railyard.ask.tune.settings.trials import TailGain
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers


def environment(tuned: Tuned) -> str:
    """Lines of a shell script; what NCCL has no variable for is a comment."""
    lines = ["# NCCL 2.24 or newer, from railyard tune"]
    settings, fixed = tuned.settings, _fixed(tuned)
    if "qps" in settings:
        lines += [f"export NCCL_IB_QPS_PER_CONNECTION={settings['qps']}", "export NCCL_IB_SPLIT_DATA_ON_QPS=0"]
    for name, value in fixed.variables():
        lines.append(f"export {name}={value}" if value.isdigit() else f'export {name}="{value}"')
    lines += [f"# collectives.{table} {key}: {word}: not NCCL's to set" for table, key, word in fixed.untold()]
    for key, value in settings.items():
        if key.startswith(("packet.", "cluster.", "workload.")) or key == "collectives.selector":
            lines.append(f"# {key}: {value}: not NCCL's to set")
    return "\n".join(lines) + "\n"


def tuner_table(tuned: Tuned) -> str:
    """Rows of the example tuner's table: one a collective that is fixed."""
    return nccl.tuner_table(_fixed(tuned).tuner_rows(tuned.servers, tuned.ranks))


def _fixed(tuned: Tuned) -> nccl.Fixed:
    settings = tuned.settings
    each = settings.get("collectives.connections")
    return nccl.Fixed(
        algorithm={key: str(word) for key, word in settings.get("collectives.algorithm", {}).items()},
        protocol={key: str(word) for key, word in settings.get("collectives.protocol", {}).items()},
        connections=None if each is None else int(each),
        pxn=settings.get("collectives.pxn") is not False,
        nics=tuned.nics,
    )


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


ENGINES = ("flow", "packet")
"""On which settings can be seen."""


def tune(
    draft: Draft, *, engine: str | None, pool: Callable[[], Workers], report: Callable[[str, float], None]
) -> tuple[Tuned, TuneAnswer]:
    """Settings that make a step shorter, and the same as a document.

    Args:
        draft: The scenario; its `tune` says what is tried.
        engine: In place of the scenario's.
        pool: Makes what trials run on; closed at the end.
        report: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario is wrong, or cannot run as written.
    """
    name = engine or draft.scenario.engine
    if name not in ENGINES:
        raise InputError("settings are tried on an engine that sees them", key="--engine", found=name, allowed=ENGINES)
    workers = pool()
    try:
        found = Tuner(draft, name, draft.scenario.tune or TuneSection(), workers, report).run()
    finally:
        workers.close()
    return found, answer_of(found, load.dump(draft.scenario))
