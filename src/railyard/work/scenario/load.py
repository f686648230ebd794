"""Loads a scenario from a file or from Python values; every fault is in one error."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import override, problems
from railyard.work.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.kit.errors import Problem
    from railyard.kit.schema.yaml import Node

M = TypeVar("M", bound=BaseModel)

_START = "`railyard init` writes a scenario to start from"


@dataclass(frozen=True)
class Draft:
    """A scenario with the tree that it was read from.

    Attributes:
        tree: Every value with its place, by which later errors find their line.
        folder: What relative paths in the scenario are relative to.
    """

    scenario: Scenario
    tree: Node
    folder: Path

    @property
    def kind(self) -> str:
        """The key of `workload` that says what runs."""
        return self.scenario.workload.kind

    @property
    def title(self) -> str:
        """Name of the result."""
        return self.scenario.name

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.scenario.seed

    @property
    def unusual(self) -> list[Problem]:
        """Allowed values that no known cluster has, with their places."""
        return list(problems.unusual(self.scenario, self.tree))

    def ignored(self, engine: str) -> list[Problem]:
        """Keys that an engine ignores, with their places."""
        return list(problems.without_effect(self.scenario, self.tree, engine))

    def changed(self, changes: Mapping[str, Node]) -> Draft:
        """The same with other values under dotted keys.

        Raises:
            InputError: The result is no valid scenario.
        """
        tree = self.tree
        for key, value in changes.items():
            tree = override.put(tree, key, value)
        return Draft(check(tree, Scenario), tree, self.folder)

    def with_values(self, changes: Mapping[str, Any], origin: str) -> Draft:
        """The same with other plain values under dotted keys.

        Raises:
            InputError: The result is no valid scenario.
        """
        mark = yaml.Mark(origin)
        nodes = {key: yaml.from_plain(value, mark) for key, value in changes.items()}
        return self.changed(nodes) if nodes else self

    def blame(self, error: InputError, *section: str) -> InputError:
        """An error of another room with its place in this scenario; `section` is what its keys are relative to."""
        return problems.place(error, self.tree, section)


@contextmanager
def blaming(draft: Draft, *section: str) -> Iterator[None]:
    """Gives errors of other rooms their place in the scenario; their keys are relative to `section`."""
    try:
        yield
    except InputError as error:
        raise draft.blame(error, *section) from None


def load(path: str | Path, sets: Sequence[str] = ()) -> Draft:
    """Reads a scenario file.

    Args:
        path: The file.
        sets: Overrides `key=value`, in order.

    Raises:
        InputError: With the place of every fault.
    """
    file = Path(path)
    return _draft(yaml.read(file, if_empty=_START), file, sets)


def from_text(text: str, path: Path) -> Draft:
    """A scenario from YAML that is not in a file yet.

    Args:
        text: YAML.
        path: Where it would stand: names it in messages, and files that it names are relative to its folder.

    Raises:
        InputError: With the place of every fault.
    """
    return _draft(yaml.parse_mapping(text, str(path), if_empty=_START), path, ())


def _draft(tree: Node, file: Path, sets: Sequence[str]) -> Draft:
    if "name" not in tree.value:
        tree = override.put(tree, "name", yaml.Node(file.stem or "scenario", tree.mark))
    for text in sets:
        tree = override.put(tree, *override.parse_set(text))
    return Draft(check(tree, Scenario), tree, file.parent)


def from_values(values: Mapping[str, Any] | Scenario, changes: Mapping[str, Any] | None = None) -> Draft:
    """A scenario from Python values, with overrides by dotted key.

    Raises:
        InputError: With the key of every fault.
    """
    plain = dump(values) if isinstance(values, Scenario) else dict(values)
    tree = yaml.from_plain(plain, yaml.Mark("scenario given in Python"))
    if "name" not in tree.value:
        tree = override.put(tree, "name", yaml.Node("scenario", tree.mark))
    for key, value in (changes or {}).items():
        tree = override.put(tree, key, yaml.from_plain(value, yaml.Mark(f"{key} given in Python")))
    return Draft(check(tree, Scenario), tree, Path())


def check(tree: Node, model: type[M]) -> M:
    """The tree as a section.

    Raises:
        InputError: With every fault of the tree.
    """
    try:
        return model.model_validate(tree.plain())
    except ValidationError as error:
        raise problems.translate(error, tree, model) from None


def dump(scenario: BaseModel) -> dict[str, object]:
    """The scenario as plain values with units, defaults written out, unused keys left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain
