"""Scenarios that a request sends as text, with the constants that were calibrated in its folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from railyard.face.verb import CALIBRATION
from railyard.face.web import dispatch
from railyard.work.scenario import load
from railyard.work.study import folder as inputs

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.scenario.load import Draft


def requested_draft(folder: Path, text: str, file: str) -> Draft:
    """The scenario of a request.

    Args:
        folder: Folder of its user.
        text: YAML.
        file: Name below the folder; other files are relative to it.

    Raises:
        InputError: It is no scenario, or it names a file outside of the folder.
    """
    draft = load.from_text(text, folder / file)
    for path in inputs.files_of(draft).values():
        dispatch.refuse_outside(path, folder)
    return _calibrated(draft, folder)


def _calibrated(draft: Draft, folder: Path) -> Draft:
    """The same with the folder's constants, where the scenario names none of its own."""
    shelf = folder / CALIBRATION
    if not shelf.is_dir():
        return draft
    from railyard.ask.calibrate.measurements import kinds

    plain = load.dump(draft.scenario)
    files = {kind.key: shelf / f"{name}.toml" for name, kind in kinds.items() if kind.work == draft.kind}
    changes = {
        key: os.path.relpath(file, draft.folder)
        for key, file in files.items()
        if file.is_file() and _at(plain, key) is None
    }
    return draft.with_values(changes, "the calibration of this folder")


def _at(plain: object, key: str) -> object:
    for part in key.split("."):
        plain = plain.get(part) if isinstance(plain, dict) else None
    return plain
