"""Loads a scenario from a file or from Python values, with every variant to compare; every fault is in one error."""

from __future__ import annotations

import itertools
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from railyard.cluster.fabric import fabrics
from railyard.kit.errors import InputError, Refusals
from railyard.kit.schema import yaml
from railyard.kit.schema.yaml import Mark, Node, from_plain
from railyard.work.scenario import override, problems
from railyard.work.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from railyard.kit.errors import Problem


M = TypeVar("M", bound=BaseModel)

_START = "`railyard init` writes a scenario to start from"

GIVEN = "scenario given in Python"
"""Stands for the file of a scenario that has none."""


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
    tree = yaml.from_plain(plain, yaml.Mark(GIVEN))
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


MOST = 1000


@dataclass(frozen=True)
class Variant:
    """One scenario of a comparison.

    Attributes:
        settings: The keys in which it differs from the others, and their values.
    """

    name: str
    settings: Mapping[str, Any]
    draft: Draft

    @property
    def bound(self) -> bool:
        """Whether its back-end cannot be bought."""
        return self.draft.scenario.cluster.back_end.spec().fabric.bound

    def misnamed(self) -> list[str]:
        """A remark if its name is a fabric that it does not run; empty otherwise."""
        cluster = self.draft.scenario.cluster
        if cluster is None or self.name not in fabrics or self.name == (own := cluster.back_end.fabric.name):
            return []
        return [f"it runs {own}: the name of a variant sets nothing; add `set: {{fabric: {self.name}}}`"]


@dataclass(frozen=True)
class ImpossibleVariant:
    """A combination of values that cannot be built or run.

    Attributes:
        error: Why.
    """

    name: str
    settings: Mapping[str, Any]
    error: InputError


def expand(draft: Draft, varies: Sequence[str] = ()) -> list[Variant]:
    """All variants of a scenario; `varies` (`key=a,b,c`) takes the place of what the file compares.

    Raises:
        InputError: A variant is no valid scenario, there are too many, or two of them are the same.
    """
    made, impossible = possible(draft, varies)
    refused = Refusals()
    _collect(refused, (one.error for one in impossible))
    refused.raise_all()
    return made


def possible(draft: Draft, varies: Sequence[str] = ()) -> tuple[list[Variant], list[ImpossibleVariant]]:
    """The variants of a scenario, and combinations of values that are no valid scenario.

    Raises:
        InputError: A key or a value is misspelt, no variant is a valid scenario, there are too many, or two of them are
            the same.
    """
    pairs = [override.parse_vary(text) for text in varies]
    if pairs:
        return _combinations(draft, pairs)
    compare = draft.scenario.compare
    if compare.vary:
        return _combinations(draft, [(key, _nodes(draft, key)) for key in compare.vary])
    if compare.variants:
        return [_named(draft, "variants", number, cumulative=False) for number in range(len(compare.variants))], []
    if compare.steps:
        return [_named(draft, "steps", number, cumulative=True) for number in range(len(compare.steps))], []
    return [Variant(draft.scenario.name, {}, draft)], []


def ended(draft: Draft, absent: Collection[str]) -> list[Variant]:
    """The variants of a scenario that a run has figures of.

    Args:
        draft: The scenario of the run.
        absent: Names of those that failed or were impossible.
    """
    return [one for one in possible(draft)[0] if one.name not in absent]


def resolved(draft: Draft, varies: Sequence[str] = ()) -> dict[str, object]:
    """The scenario with defaults written out, and with the comparison of the command line in it."""
    if not varies:
        return dump(draft.scenario)
    pairs = [override.parse_vary(text) for text in varies]
    compare = {"vary": {key: [node.plain() for node in nodes] for key, nodes in pairs}}
    return dump(draft.changed({"compare": from_plain(compare, Mark("--vary"))}).scenario)


def _nodes(draft: Draft, key: str) -> list[Node]:
    listed = draft.tree.value["compare"].value["vary"].value[key]
    return list(listed.value)


def _combinations(draft: Draft, pairs: list[tuple[str, list[Node]]]) -> tuple[list[Variant], list[ImpossibleVariant]]:
    keys = [key for key, _ in pairs]
    twice = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
    if twice is not None:
        raise InputError(f"`{twice}` is varied twice", key=twice, hint="give all its values at once")
    total = 1
    for key, values in pairs:
        refuse_twins(key, values)
        total *= len(values)
    if total > MOST:
        key, values = max(pairs, key=lambda pair: len(pair[1]))
        found, allowed = f"{len(values):,} values", f"at most {MOST:,} variants"
        problem = values[0].problem(f"{total:,} variants are too many", key=key, found=found, allowed=allowed)
        raise InputError.many([problem])
    base = without_compare(draft)
    every = [dict(zip(keys, one, strict=True)) for one in itertools.product(*(values for _, values in pairs))]
    tried = [(changes, _tried(base, changes)) for changes in every]
    _refuse_misspelt(pairs, tried)
    made = [found for _, found in tried if isinstance(found, Variant)]
    impossible = [found for _, found in tried if isinstance(found, ImpossibleVariant)]
    return made, impossible


def _tried(base: Draft, changes: Mapping[str, Node]) -> Variant | ImpossibleVariant:
    try:
        return variant_of(base, changes)
    except InputError as error:
        settings = {key: node.plain() for key, node in changes.items()}
        return ImpossibleVariant(name_of(settings), settings, error)


def _refuse_misspelt(
    pairs: Sequence[tuple[str, Sequence[Node]]],
    tried: Sequence[tuple[Mapping[str, Node], Variant | ImpossibleVariant]],
) -> None:
    """Rejects values that no other value makes valid, and a comparison of which nothing is.

    Raises:
        InputError: With the problems of such values; with all where no combination is valid.
    """
    keys, refused = [key for key, _ in pairs], Refusals()
    for key, values in pairs:
        for value in values:
            found = [one for changes, one in tried if changes[key] is value]
            wrong = [one.error for one in found if isinstance(one, ImpossibleVariant)]
            if len(wrong) == len(found) and all(_is_of(error, key, keys) for error in wrong):
                _collect(refused, wrong)
    if all(isinstance(one, ImpossibleVariant) for _, one in tried):
        _collect(refused, [one.error for _, one in tried if isinstance(one, ImpossibleVariant)])
    refused.raise_all()


def _collect(refused: Refusals, errors: Iterable[InputError]) -> None:
    for error in errors:
        with refused:
            raise error


def _is_of(error: InputError, key: str, keys: Sequence[str]) -> bool:
    return any(owner(keys, problem.key or "") == key for problem in error.problems)


def owner(keys: Sequence[str], blamed: str) -> str:
    """The key of some that what is blamed lies under, the one that says most of it; empty: none."""
    found = [key for key in keys if blamed.startswith((".".join(override.full_path(key)), key))]
    return max(found, key=lambda key: len(override.full_path(key)), default="")


def refuse_twins(key: str, values: Sequence[Node]) -> None:
    """Rejects two variants of the same name.

    Raises:
        InputError: A value appears twice.
    """
    plain = [(type(node.value), node.plain()) for node in values]
    for number, value in enumerate(plain):
        if value in plain[:number]:
            raise InputError.many([values[number].mark.problem(f"`{value[1]}` appears twice", key=key)])


def variant_of(base: Draft, changes: Mapping[str, Node]) -> Variant:
    """The scenario with other values under dotted keys, named after them.

    Raises:
        InputError: It is no valid scenario.
    """
    settings = {key: node.plain() for key, node in changes.items()}
    return Variant(name_of(settings), settings, base.changed(changes))


def name_of(settings: Mapping[str, Any]) -> str:
    """Name of a variant with these settings: `roce, tp 8`."""
    return ", ".join(_words(key, value) for key, value in settings.items())


def _named(draft: Draft, form: str, number: int, *, cumulative: bool) -> Variant:
    listed = draft.tree.value["compare"].value[form].value
    changes: dict[str, Node] = {}
    for item in listed[0 if cumulative else number : number + 1]:
        changes.update(item.value["set"].value if "set" in item.value else {})
    section = getattr(draft.scenario.compare, form)[number]
    return Variant(section.name, dict(section.set), without_compare(draft).changed(changes))


def without_compare(draft: Draft) -> Draft:
    """The scenario alone, so that a variant does not carry the comparison it is part of."""
    if "compare" not in draft.tree.value:
        return draft
    return draft.changed({"compare": from_plain({}, Mark("scenario"))})


def _words(key: str, value: Any) -> str:
    """`roce`, or `tp 8` where the value alone would not say what it is."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{name} {_inner(item)}" if name not in override.TAGS.values() else str(item)
            for name, item in value.items()
        )
        return inner or key.rpartition(".")[2]
    last = key.rpartition(".")[2]
    if value is None:
        return f"no {last.replace('_', ' ')}"
    plain = last in {"fabric", "topology", "server", "model", "name", "kind", "switch", "engine", "precision", "policy"}
    return str(value) if plain and isinstance(value, str) else f"{last.replace('_', ' ')} {value}"


def _inner(value: Any) -> str:
    """A value within a section; of a pool how many replicas it has, of other sections `(key value, ...)`."""
    if not isinstance(value, dict):
        return str(value)
    if "replicas" in value:
        return str(value["replicas"])
    return f"({', '.join(f'{name} {_inner(item)}' for name, item in value.items())})"
