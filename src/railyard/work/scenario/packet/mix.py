"""A fabric composed in a YAML file: a base and what is changed of it, by the same keys as `--set`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.user import PREFIX, is_user
from railyard.kit.errors import InputError, Problem, Refusals, did_you_mean
from railyard.kit.schema.yaml import kind_of, read
from railyard.work.scenario.packet.settings import KEYS, Preset, assign, fabric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.kit.schema.yaml import Mark, Node
    from railyard.work.scenario.packet.settings import PacketSettings

SUFFIXES = (".yaml", ".yml")
BASE = "uec"
_OWN = ("name", "summary", "base")


def chosen(text: str, *, trust: bool = False) -> Preset:
    """The fabric of a name, or of a YAML file.

    Args:
        text: Either.
        trust: Whether Python that the file names may be run.

    Raises:
        InputError: There is no such fabric, or the file is wrong, or it names Python and is not trusted.
    """
    return load(Path(text), trust=trust) if is_mix(text) else fabric(text)


def is_mix(text: str) -> bool:
    """Whether `--fabric` names a file."""
    return text.lower().endswith(SUFFIXES)


def load(path: Path, *, trust: bool = False) -> Preset:
    """The fabric that a file composes.

    Its keys are `name`, `summary`, `base` (a fabric of packets by name, from which everything comes that the file does
    not say) and the keys of `--set`. A section is short for keys that begin alike: `dcqcn: {g: 0.004}` is
    `dcqcn_g: 0.004`.

    Raises:
        InputError: With file, line and key of everything that is wrong in it; Python that it names, without `trust`.
    """
    root = read(path)
    wrong, words, base = Refusals(), {}, fabric(BASE)
    for key in _OWN:
        with wrong:
            words[key] = _word(root, key)
    if words.get("base"):
        base = fabric(words["base"])
    problems = wrong.problems
    assignments = list(_flat(root, "", problems))
    if not trust:
        _refuse_python(assignments)
    settings = _assigned(base.settings, assignments, path.parent, problems)
    if problems:
        raise InputError.many(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
    return Preset(
        name=words["name"] or path.stem,
        summary=words["summary"] or f"A mix on the base of {base.name}.",
        settings=settings,
        sources=(f"{path}", *base.sources),
        left_out=base.left_out,
    )


def _refuse_python(assignments: list[tuple[str, str, Mark]]) -> None:
    """A file from another user must not run code because it was named."""
    named = [
        mark.problem(
            f"this file would run Python: {text.removeprefix(PREFIX).partition(':')[0]}",
            key=key,
            hint="read that Python, then give `--trust`",
        )
        for key, text, mark in assignments
        if is_user(text)
    ]
    if named:
        raise InputError.many(named)


def _word(root: Node, key: str) -> str:
    """A key of the file's own, which holds text; empty where it is left out.

    Raises:
        InputError: It holds something else, or (base) there is no such fabric.
    """
    node = root.value.get(key)
    if node is None:
        return ""
    if not isinstance(node.value, str):
        raise InputError.many([node.mark.problem(f"expected text, got {kind_of(node.value)}", key=key)])
    if key == "base":
        try:
            fabric(node.value)
        except InputError as error:
            raise _at(error, node.mark, key) from None
    return node.value


def _flat(node: Node, prefix: str, problems: list[Problem]) -> Iterator[tuple[str, str, Mark]]:
    """Key, text and place of every setting; what is unknown or no value goes to the problems."""
    for name, child in node.value.items():
        key = f"{prefix}{name}"
        mark = node.keys[name]
        if not prefix and name in _OWN:
            continue
        if isinstance(child.value, dict):
            if any(known.startswith(f"{key}_") for known in KEYS):
                yield from _flat(child, f"{key}_", problems)
            else:
                problems.append(_unknown(key, mark))
        elif key not in KEYS:
            problems.append(_unknown(key, mark))
        elif child.value in (None, "") or isinstance(child.value, list):
            problems.append(child.mark.problem(f"expected a value, got {kind_of(child.value)}", key=key))
        else:
            yield key, _text(child.value), child.mark


def _unknown(key: str, mark: Mark) -> Problem:
    allowed = (*_OWN, *KEYS)
    return mark.problem("unknown key", key=key, allowed=", ".join(allowed), hint=did_you_mean(key, allowed))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _assigned(
    settings: PacketSettings, assignments: list[tuple[str, str, Mark]], folder: Path, problems: list[Problem]
) -> PacketSettings:
    """The base's settings with everything put in; where that fails, each key is tried alone, to name all wrong ones."""
    texts = [f"{key}={_resolved(text, folder)}" for key, text, _ in assignments]
    marks = {key: mark for key, _, mark in assignments}
    try:
        return assign(settings, texts)
    except InputError as error:
        first_error = error
    found: list[Problem] = []
    for text, (key, _, mark) in zip(texts, assignments, strict=True):
        try:
            assign(settings, [text])
        except InputError as error:
            found += _at(error, mark, key).problems
    problems += (
        found or _at(first_error, marks.get(first_error.problems[0].key or "", assignments[0][2]), None).problems
    )
    return settings


def _resolved(text: str, folder: Path) -> str:
    """A path to a user's file is meant from the folder of the YAML file."""
    if not is_user(text):
        return text
    return f"{PREFIX}{folder / text.removeprefix(PREFIX)}"


def _at(error: InputError, mark: Mark, key: str | None) -> InputError:
    """The error with the place in the YAML file, where it has none of its own."""
    placed = [
        replace(problem, file=mark.file, line=mark.line, column=mark.column, key=problem.key or key)
        if problem.file is None
        else problem
        for problem in error.problems
    ]
    return InputError.many(placed)
