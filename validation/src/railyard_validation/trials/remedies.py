"""Remedies: what a run says that a change would give is what a run with the change gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard_validation.trials.layouts import network, scenario, step_s, words
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

# Layouts that leave something to mend, by model.
_JOBS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("llama-3-8b", 32, {"zero": 3, "micro_batch": 1}),
    ("llama-3-8b", 32, {"tp": 2, "pp": 2, "micro_batch": 1, "recompute": "full"}),
    ("llama-3-70b", 64, {"tp": 8, "pp": 4, "micro_batch": 1}),
    ("mixtral-8x7b", 32, {"pp": 2, "ep": 8, "micro_batch": 1, "recompute": "full"}),
    ("qwen3-30b-a3b", 32, {"ep": 16, "micro_batch": 1, "recompute": "full"}),
)
_TRIED = 4
# A user can change each of these; nobody sells "1.25 times the FLOPS".
_FAMILIES = {
    "layout",
    "queue pairs",
    "placement",
    "fabric",
    "oversubscription",
    "link rate",
    "collectives",
    "precision",
}
_FAMILIES |= {"checkpoint interval", "software"}


def _delivered(draw: np.random.Generator, folder: Path) -> Case:
    model, ranks, layout = _JOBS[int(draw.integers(len(_JOBS)))]
    back_end = network(draw)
    if draw.random() < 0.5:
        back_end["fabric"] = {"name": "roce", "qps": 1}
    cluster = {"accelerators": ranks, "server": str(draw.choice(["hgx-h100", "hgx-h200"])), "back_end": back_end}
    cluster["placement"] = str(draw.choice(["packed", "scattered"]))
    training = {
        "model": model,
        "global_batch": ranks * int(draw.choice([1, 4])),
        "sequence": 4096,
        "parallelism": layout,
    }
    training |= {"precision": "bf16", "tokens": "100 B"}
    engine = str(draw.choice(["flow", "flow", "analytic"]))
    file = scenario(folder, "plain", cluster, training, engine)

    def rows(outputs: Sequence[Output]) -> list[dict[str, Any]]:
        changes = outputs[0].data["variants"][0]["bottleneck"]["changes"] or []
        found = [row for row in changes if not row["bound"]]
        return found[:_TRIED] + found[_TRIED:][-2:]

    def then(outputs: Sequence[Output]) -> list[list[str]]:
        return [["run", file, "--json", "-q", *_set(row["settings"])] for row in rows(outputs)]

    def judge(outputs: Sequence[Output]) -> list[str]:
        variant = outputs[0].data["variants"][0]
        problems = ["FLOPS are offered as a remedy"] if "FLOPS" in variant["bottleneck"]["headline"] else []
        if not rows(outputs):
            problems.append("no remedy at all")
        for row, output in zip(rows(outputs), outputs[1:], strict=True):
            problems += _kept(row, output)
        return problems

    fabric = back_end["fabric"] if isinstance(back_end["fabric"], str) else "roce of one queue pair"
    named = {**cluster, "back_end": {**back_end, "fabric": fabric}}
    return Case(words(named, training, json.dumps(layout), engine), [["run", file, "--json", "-q"]], judge, then=then)


def _set(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def _kept(row: dict[str, Any], output: Output) -> list[str]:
    """What a remedy promised and did not keep."""
    if row["family"] not in _FAMILIES:
        return [f"{row['name']}: nobody can do {row['family']}"]
    if row["cpmt_usd"] is None or row["capex_change_usd"] is None:
        return [f"{row['name']} has no cost"]
    if output.code:
        return [f"{row['name']} cannot be typed: {output.words[:200]}"]
    cost = output.data["variants"][0]["cpmt"]["typical"]
    off = [abs(step_s(output) / row["step_seconds"] - 1), abs(cost / row["cpmt_usd"] - 1)]
    if max(off) > 1e-9:
        return [
            f"{row['name']}: {row['step_seconds']!r} s promised, {step_s(output)!r} s; $ {row['cpmt_usd']!r}, {cost!r}"
        ]
    return []


trials.add("remedies", Trial("remedies", "a promised gain is delivered, and each remedy has its cost", _delivered))
