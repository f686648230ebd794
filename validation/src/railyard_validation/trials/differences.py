"""Two runs of a scenario: which figures moved, and what was changed between them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import yaml

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

_CHANGES: tuple[tuple[str, Any, Any], ...] = (
    ("cluster.back_end.fabric", "roce", "uec"),
    ("cluster.back_end.topology.oversubscription", "1:1", "4:1"),
    ("cluster.back_end.link_rate", "400 Gb/s", "200 Gb/s"),
    ("workload.training.parallelism.tp", 2, 8),
    ("workload.training.parallelism.zero", 1, 3),
    ("workload.training.sequence", 4096, 8192),
    ("cluster.server", "hgx-h100", "hgx-h200"),
    ("economics.electricity", "$0.05/kWh", "$0.15/kWh"),
)
_SAME = 5e-4


def _scenario(draw: np.random.Generator) -> dict[str, Any]:
    ranks = int(draw.choice((16, 32, 64)))
    topology = {"kind": "leaf-spine", "oversubscription": "1:1", "ports_per_leaf": 16}
    back_end = {"topology": topology, "fabric": "roce", "link_rate": "400 Gb/s"}
    layout = {"tp": 2, "pp": 1, "zero": 1, "micro_batch": 1}
    training = {"model": "llama-3-8b", "tokens": "1 T", "global_batch": ranks, "sequence": 4096, "parallelism": layout}
    cluster = {"accelerators": ranks, "server": "hgx-h100", "placement": "scattered", "back_end": back_end}
    return {"name": "drawn", "cluster": cluster, "workload": {"training": training}}


def _put(document: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for word in path:
        document = document.setdefault(word, {})
    document[last] = value


def _write(folder: Path, name: str, document: dict[str, Any]) -> str:
    (folder / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return name


def _result(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next((folder / name).glob("*/result.json")).read_text(encoding="utf-8"))
    return found


def _changed(draw: np.random.Generator, folder: Path) -> Case:
    key, old, new = _CHANGES[int(draw.integers(len(_CHANGES)))]
    document = _scenario(draw)
    _put(document, key, old)
    before = _write(folder, "before.yaml", document)
    _put(document, key, new)
    after = _write(folder, "after.yaml", document)
    commands = (
        ("run", before, "--out", "old", "-q"),
        ("run", after, "--out", "new", "-q"),
        ("diff", "old/drawn-*", "new/drawn-*", "--json"),
        ("diff", "old/drawn-*", "new/drawn-*"),
        ("diff", "old/drawn-*", "old/drawn-*", "--json"),
    )

    def judge(outputs: Sequence[Output]) -> list[str]:
        found = [f"exit {output.code}: {output.words[:100]}" for output in outputs if output.code]
        answer, words = outputs[2].data, outputs[3].text.splitlines()
        causes = [one["what"] for one in answer["causes"] if one["kind"] == "scenario"]
        if not {key, f"{key}.name"}.intersection(causes):  # `fabric: roce` is read as `fabric: {name: roce}`
            found.append(f"{key} was changed, and the causes are {causes}")
        found += _figure_problems(answer, _result(folder, "old"), _result(folder, "new"))
        if words[0] != answer["conclusion"]:
            found.append("the first line is not the conclusion")
        found += _step_problems(words[0], _result(folder, "old"), _result(folder, "new"))
        if outputs[4].data["figures"]:
            found.append("a run differs from itself")
        return found

    return Case(f"{key}: {old} -> {new}, {document['cluster']['accelerators']} ranks", commands, judge)


def _at(document: Any, path: str) -> Any:
    for word in path.split("."):
        document = document[int(word)] if isinstance(document, list) else document[word]
    return document


def _figure_problems(answer: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is listed stands in the files and moved; what heads an answer and moved is listed."""
    found = [
        f"{row['path']} is listed and did not move"
        for row in answer["figures"]
        if math.isclose(row["old"], row["new"], rel_tol=1e-4)
    ]
    listed = {row["path"] for row in answer["figures"]}
    for path in ("step.seconds", "cpmt.typical", "jct.seconds", "power.total_w.typical", "capex.total_usd.typical"):
        before, after = (_at(one["variants"][0], path) for one in (old, new))
        moved = not math.isclose(before, after, rel_tol=_SAME)
        if moved and path not in listed:
            found.append(f"{path} went from {before:.6g} to {after:.6g} and is not listed")
        rows = [row for row in answer["figures"] if row["path"] == path]
        if rows and (rows[0]["old"], rows[0]["new"]) != (before, after):
            found.append(f"{path} is {rows[0]['old']} -> {rows[0]['new']}, the files have {before} -> {after}")
    return found


def _step_problems(line: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, after = (one["variants"][0]["step"]["seconds"] for one in (old, new))
    share = after / before - 1.0
    if abs(share) < _SAME:
        return []
    return [] if f"{share:+.1%}".replace("%", " %") in line else [f"the step moved by {share:+.1%}, said is: {line}"]


trials.add(
    "diff-cause",
    Trial(
        "diff-cause",
        "`diff` of two runs names the key that was changed and every headline figure that moved, with both values; a"
        " run and itself differ in nothing.",
        _changed,
    ),
)


_AGED: tuple[str, ...] = ("layout", "storage", "collectives", "lockstep", "topology", "network")


def _aged(draw: np.random.Generator, folder: Path) -> Case:
    """A result as another version wrote it: a section less, a key renamed, another step, another version."""
    scale = float(draw.uniform(0.5, 1.5))
    gone = _AGED[int(draw.integers(len(_AGED)))]
    step = float(draw.uniform(1.0, 20.0))
    total = {"low": step * 0.9, "typical": step, "high": step * 1.1}
    variant = {"name": "roce", "settings": {}, gone: {"x": 1}, "step": {"seconds": step}, "cpmt": total}
    time = [
        {"cause": "compute", "group": "", "phase": "forward", "seconds": step * 0.8, "share": 0.8},
        {"cause": "bandwidth", "group": "dp", "phase": "", "seconds": step * 0.2, "share": 0.2},
    ]
    source = {"item": "h100-sxm", "field": "price", "value": "25000", "source": "A", "year": 2024, "confidence": "x"}
    provenance = {"version": "0.0.9", "engine": "flow", "seed": 1, "digest": "a", "sources": [source]}
    old = {
        "format": "railyard/result-1",
        "name": "drawn",
        "provenance": provenance,
        "variants": [variant | {"time": time}],
    }
    slower = [time[0], time[1] | {"seconds": step * scale - step * 0.8, "share": 1 - 0.8 / scale}]
    later = {key: value for key, value in variant.items() if key != gone} | {
        "step": {"mean_s": 1, "seconds": step * scale}
    }
    changed = provenance | {"version": "0.1.0", "sources": [source | {"value": "30000", "source": "B"}]}
    new = old | {"provenance": changed, "variants": [later | {"time": slower}]}
    for name, document in (("old", old), ("new", new)):
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")

    def judge(outputs: Sequence[Output]) -> list[str]:
        answer = outputs[0].data
        causes = {(one["kind"], one["what"]): one for one in answer["causes"]}
        found = []
        if ("version", "version") not in causes:
            found.append("another version is not named")
        price = causes.get(("catalogue", "h100-sxm: price"))
        if price is None or "A" not in price["old"] or "B" not in price["new"]:
            found.append(f"a changed price is not named with its sources: {sorted(causes)}")
        if not any(gone in path for path in answer["only_old"]):
            found.append(f"`{gone}`, which only the old file has, is not named: {answer['only_old']}")
        parts = {row["part"]: row for row in answer["parts"]}
        if abs(parts["bandwidth (dp)"]["new"] - parts["bandwidth (dp)"]["old"] - step * (scale - 1)) > 1e-9 * step:
            found.append("the part of the step that moved is wrong")
        if "compute" in parts:
            found.append("compute is listed and did not move")
        return found

    return Case(
        f"step {step:.3g} s times {scale:.3g}, without {gone}", (("diff", "old.json", "new.json", "--json"),), judge
    )


trials.add(
    "diff-versions",
    Trial(
        "diff-versions",
        "`diff` reads results of other versions: what is missing is named, so are changed prices with their sources and"
        " the part of the step that moved.",
        _aged,
    ),
)
