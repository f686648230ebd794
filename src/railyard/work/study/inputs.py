"""The scenario of a run in its folder: resolved, with copies of the files that it names."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING, Any

from railyard.kit.files import copy_file, opened, write_text
from railyard.kit.schema import yaml
from railyard.work.jobs.drafts import draft_of
from railyard.work.study.compose import model_file
from railyard.work.study.folder import slug

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.work.pipeline.section import PipelineSection
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.variants import Variant

INPUTS = "inputs"


def write_inputs(folder: Path, plain: dict[str, object], variants: Sequence[Variant]) -> None:
    """The scenario, with copies of the files that it names.

    Args:
        folder: Where to.
        plain: The resolved scenario.
        variants: Each may name files of its own.
    """
    names: dict[str, str] = {}
    for variant in variants:
        for name, path in files_of(variant.draft).items():
            names[name] = f"{INPUTS}/{slug(path.parent.resolve().name)}-{path.name}"
            target = folder / names[name]
            target.parent.mkdir(exist_ok=True)
            _copy(path, target)
    write_text(folder / "scenario.yaml", yaml.to_text(_renamed(plain, names)))


def _copy(path: Path, target: Path) -> None:
    """Copies a file, or the files of a folder."""
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True, copy_function=copy_file)
    else:
        copy_file(path, target)


def digests_of(draft: Draft) -> dict[str, str]:
    """Of the contents of all files that a scenario names, by what it calls them."""
    return {name: digest_of(path) for name, path in sorted(files_of(draft).items())}


def digest_of(path: Path) -> str:
    """Of a file, or of the description of a model in a folder; empty where there is neither."""
    file = path / "config.json" if path.is_dir() else path
    if not file.exists():
        return ""
    with opened(file) as found:
        return hashlib.file_digest(found, "sha256").hexdigest()


def files_of(draft: Draft) -> dict[str, Path]:
    """The files that a scenario names, by what it calls them."""
    files: dict[str, Path] = {}
    workload = draft.scenario.workload
    for number in range(len(workload.jobs or ())):
        files |= files_of(draft_of(draft, number))
    of_one = workload.training or workload.serving
    model = None if of_one is None else model_file(draft.folder, of_one.model)
    if of_one is not None and model is not None:
        files[of_one.model] = model
    served = workload.serving or workload.pipeline
    if served is not None and served.requests.trace is not None:
        files[served.requests.trace] = draft.folder / served.requests.trace
    if workload.serving is not None and workload.serving.profiles is not None:
        files[workload.serving.profiles] = draft.folder / workload.serving.profiles
    if workload.operate is not None and workload.operate.jobs.trace is not None:
        files[workload.operate.jobs.trace] = draft.folder / workload.operate.jobs.trace
    if workload.trace is not None:
        files[workload.trace.file] = draft.folder / workload.trace.file
    if workload.pipeline is not None:
        files |= _files_of_stages(draft, workload.pipeline)
    if draft.scenario.collectives.constants is not None:
        files[draft.scenario.collectives.constants] = draft.folder / draft.scenario.collectives.constants
    if draft.scenario.catalog is not None:
        files[draft.scenario.catalog] = draft.folder / draft.scenario.catalog
    return files


def _files_of_stages(draft: Draft, pipeline: PipelineSection) -> dict[str, Path]:
    """The files of models and profiles that stages name."""
    named = [getattr(stage, "model", "") for stage in pipeline.stages.values()]
    paths = {name: draft.folder / name for name in named if name.endswith(".json") or "/" in name}
    profiles = [getattr(stage, "profiles", None) for stage in pipeline.stages.values()]
    paths |= {name: draft.folder / name for name in profiles if name is not None}
    return {name: path / "config.json" if path.is_dir() else path for name, path in paths.items() if path.exists()}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
