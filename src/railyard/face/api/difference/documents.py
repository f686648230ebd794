"""Results and answers as leaves, whatever version wrote them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.measure.result.answers.answer import NAMES
from railyard.measure.result.section import flatten
from railyard.work.study.kept import result_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.measure.result.section import Leaf

    Leaves = Mapping[str, Leaf]

PARTS = ("variants", "front", "runners_up")
"""Lists whose rows are compared by themselves: variants of a run, designs of a plan."""

_PART = re.compile(rf"({'|'.join(PARTS)})\[((?:[^\[\]]|\[[^\]]*\])*)\]\.")


@dataclass(frozen=True)
class Document:
    """A result of a run, or an answer of another command.

    Attributes:
        file: Where it stands, or the command that gave it.
        leaves: All values by path.
    """

    file: str
    leaves: Leaves

    @property
    def kind(self) -> str:
        """Its format without the number: `railyard`, `railyard-plan`."""
        return str(self.leaves.get("format", "")).partition("/")[0]

    def text(self, *paths: str) -> str:
        """The first of some values that is there, as text."""
        return next((str(self.leaves[path]) for path in paths if path in self.leaves), "")

    @property
    def version(self) -> str:
        """Of Railyard."""
        return self.text("provenance.version", "version")

    def parts(self) -> dict[str, dict[str, Leaf]]:
        """Leaves of each variant or design by its name, by paths within; all others under the empty name."""
        found: dict[str, dict[str, Leaf]] = {"": {}}
        for path, value in self.leaves.items():
            match = _PART.match(path)
            if match is None:
                found[""][path] = value
            else:
                found.setdefault(match[2], {})[path[match.end() :]] = value
        return found


def read(path: Path) -> Document:
    """A document from its file or the folder that holds it.

    Raises:
        InputError: There is none, or it is not a JSON document of Railyard.
    """
    file = _file(path)
    if file.suffix in {".yaml", ".yml"}:
        hint = f"run it first: `railyard run {file}` names the folder of the run, which `diff` takes"
        raise InputError("this is a scenario, not a result", file=file, hint=hint)
    try:
        found = json.loads(read_text(file))
        leaves = dict(flatten(found))
    except (ValueError, RecursionError) as error:
        hint = "give the folder of a run, or a file of `--json`"
        raise InputError(f"this is no complete JSON: {error}", file=file, hint=hint) from None
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("railyard"):
        given: Any = found.get("format") if isinstance(found, dict) else type(found).__name__
        raise InputError(
            "this is not a result of Railyard", file=file, key="format", found=given, allowed="railyard..."
        )
    return Document(str(path), leaves)


def _file(path: Path) -> Path:
    """The document in a folder: a run's result, or another command's answer."""
    answers = [path / f"{name}.json" for name in NAMES.values()]
    kept = next((answer for answer in answers if answer.is_file()), None)
    return result_file(path) if kept is None or (path / "result.json").is_file() else kept
