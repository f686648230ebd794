"""What the folder of a run holds besides the report: the scenario with its inputs, the result, timelines and traces."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from railyard.scenario import load, override
from railyard.scenario.compose import model_file
from railyard.scenario.folder import slug
from railyard.scenario.source import Mark, from_plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.graph import Timeline
    from railyard.scenario.load import Draft
    from railyard.scenario.prepare import Job
    from railyard.scenario.serving.prepare import ServingJob
    from railyard.scenario.serving.stages.prepare import PipelineJob
    from railyard.scenario.serving.stages.section import PipelineSection

INPUTS = "inputs"


def resolved(draft: Draft, varies: Sequence[str] = ()) -> dict[str, Any]:
    """The scenario with defaults written out, and with the comparison of the command line in it."""
    if not varies:
        return load.dump(draft.scenario)
    pairs = [override.parse_vary(text) for text in varies]
    compare = {"vary": {key: [node.plain() for node in nodes] for key, nodes in pairs}}
    return load.dump(draft.changed({"compare": from_plain(compare, Mark("--vary"))}).scenario)


def place(folder: Path, number: int, jobs: Sequence[Job] | Sequence[ServingJob] | Sequence[PipelineJob]) -> Path:
    """Where the timeline of a variant goes: that of the first into the folder itself, others into one of their own."""
    if number == 0:
        return folder
    inner = folder / "variants" / f"{number}-{slug(jobs[number].variant.name)}"
    inner.mkdir(parents=True, exist_ok=True)
    return inner


def write_variant(folder: Path, timeline: Timeline, ranks: Sequence[int]) -> None:
    """The timeline as Parquet, and a few ranks of it for Perfetto."""
    from railyard.graph import perfetto

    timeline.write_parquet(folder / "timeline.parquet")
    perfetto.write(timeline, folder / "trace.json", ranks=ranks)


def write_run(folder: Path, plain: dict[str, Any], drafts: Sequence[Draft], result: dict[str, Any]) -> None:
    """The scenario with copies of the files that it names, and the result.

    Args:
        folder: Where to.
        plain: The resolved scenario.
        drafts: Of every variant.
        result: As in `result.json`.
    """
    names: dict[str, str] = {}
    for draft in drafts:
        for said, path in _files(draft).items():
            names[said] = f"{INPUTS}/{slug(path.parent.resolve().name)}-{path.name}"
            target = folder / names[said]
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
    (folder / "scenario.yaml").write_text(load.to_yaml(_renamed(plain, names)), encoding="utf-8")
    (folder / "result.json").write_text(json.dumps(result, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def _files(draft: Draft) -> dict[str, Path]:
    """The files that a scenario names, by what it calls them."""
    files: dict[str, Path] = {}
    workload = draft.scenario.workload
    model = None if workload.pipeline else model_file(draft)
    if model is not None:
        files[(workload.training or draft.scenario.serving).model] = model
    served = workload.serving or workload.pipeline
    if served is not None and served.requests.trace is not None:
        files[served.requests.trace] = draft.folder / served.requests.trace
    if workload.serving is not None and workload.serving.profiles is not None:
        files[workload.serving.profiles] = draft.folder / workload.serving.profiles
    if workload.pipeline is not None:
        files |= _files_of_stages(draft, workload.pipeline)
    if draft.scenario.catalog is not None:
        files[draft.scenario.catalog] = draft.folder / draft.scenario.catalog
    return files


def _files_of_stages(draft: Draft, pipeline: PipelineSection) -> dict[str, Path]:
    """The files of models and profiles that stages name."""
    named = [getattr(stage, "model", "") for stage in pipeline.stages.values()]
    paths = {name: draft.folder / name for name in named if name.endswith(".json") or "/" in name}
    own = [getattr(stage, "profiles", None) for stage in pipeline.stages.values()]
    paths |= {name: draft.folder / name for name in own if name is not None}
    return {name: path / "config.json" if path.is_dir() else path for name, path in paths.items() if path.exists()}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
