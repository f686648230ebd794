"""Pydantic's errors in the user's words and at the place in the file.

All errors of a file come at once. Each carries file, line, column, key, what was found, what is allowed, and the
nearest right spelling where a word is wrong.
"""

from __future__ import annotations

import re
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Discriminator

from railyard.kit.errors import InputError, Problem, causes, did_you_mean, suggest
from railyard.kit.schema.quantity import Bounds
from railyard.kit.schema.yaml import Mark, Node, kind_of
from railyard.work.scenario.override import SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo

    from railyard.work.scenario.model import Scenario

MOST = 50
"""Faults of one file that are shown; more are counted."""

_DUE = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "model_type": "a section with keys",
    "model_attributes_type": "a section with keys",
    "dict_type": "a section with keys",
    "mapping_type": "a section with keys",
    "tuple_type": "a list",
    "list_type": "a list",
    "finite_number": "a finite number",
    "none_required": "no value",
    "union_tag_not_found": "a section with keys",
}
_BOUND = {
    "greater_than_equal": ("must be at least {}", "ge"),
    "greater_than": ("must be more than {}", "gt"),
    "less_than_equal": ("must be at most {}", "le"),
    "less_than": ("must be less than {}", "lt"),
    "too_short": ("must have {} or more items", "min_length"),
    "too_long": ("must have at most {} items", "max_length"),
    "string_too_short": ("must not be empty", "min_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
}


def translate(error: ValidationError, root: Node, model: type[BaseModel]) -> InputError:
    """The whole of a validation error as an `InputError` with a place for each problem."""
    items = causes(error.errors(include_url=False))
    problems: list[Problem] = []
    for item in items[:MOST]:
        problem = _problem(item, root, model)
        if problem not in problems:
            problems.append(problem)
    rest = len(items) - MOST
    more = [Problem(f"{rest:,} more faults are not shown")] if rest > 0 else []
    return InputError.many([*sorted(problems, key=_order), *more])


def place(
    error: InputError, root: Node, section: Sequence[str] = (), model: type[BaseModel] | None = None
) -> InputError:
    """An error of another room with its places in the file.

    Args:
        error: Its keys are relative to `section`.
        root: The file.
        section: Path of keys.
        model: What the file is; a scenario when left out.
    """
    from railyard.work.scenario.model import Scenario

    return InputError.many(_placed(problem, root, section, model or Scenario) for problem in error.problems)


def _placed(problem: Problem, root: Node, section: Sequence[str], model: type[BaseModel]) -> Problem:
    from dataclasses import replace

    if problem.file is not None:
        return problem
    inner = re.sub(r"\[(\d+)\]", r".\1", problem.key or "")
    path = (*section, *(inner.split(".") if inner else ()))
    if not section and path and not known(path, model):
        path = ("cluster", *path)  # what the cluster room says after the cluster was built
    node, reached = locate(root, path)
    key = ".".join(known(path, model) if problem.key else reached) or None
    return replace(problem, file=node.mark.file, line=node.mark.line, column=node.mark.column, key=key)


def known(path: Sequence[str], model: type[BaseModel]) -> tuple[str, ...]:
    """The path as far as the schema knows its keys; an error never names a key that nobody can write."""
    sections = [model]
    for length, step in enumerate(path):
        if step.isdecimal():
            continue
        held = [(one, name) for one in sections for name, f in one.model_fields.items() if step == (f.alias or name)]
        if not held:
            return tuple(path[:length])
        if any(_is_free(one, name) for one, name in held):
            return tuple(path)
        sections = [part for one, name in held for part in _within(one, name)]
    return tuple(path)


def _is_free(section: type[BaseModel], name: str) -> bool:
    """Whether a key holds names of the user's own, such as those of tiers or places."""
    return any(typing.get_origin(hint) is dict for hint in _hints(section.model_fields[name].annotation))


def _hints(hint: Any) -> Iterator[Any]:
    """A type, and the types within it."""
    yield hint
    for part in reversed(typing.get_args(hint)):
        if not isinstance(part, Bounds):
            yield from _hints(part)


def unusual(section: BaseModel, root: Node, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Values that are allowed and that no known cluster has, each with its place; defaults are not looked at."""
    for name in type(section).model_fields:
        if name not in section.model_fields_set:
            continue
        field = type(section).model_fields[name]
        limits = tuple(_bounds_of(field))
        for place, leaf in _leaves(getattr(section, name), (*path, field.alias or name)):
            if isinstance(leaf, BaseModel):
                yield from unusual(leaf, root, place)
                continue
            words = [limit.unusual(leaf) for limit in limits if isinstance(leaf, int | float)]
            node, walked = locate(root, place)
            yield from (node.problem(text, key=".".join(walked)) for text in words if text is not None)


def without_effect(scenario: Scenario, root: Node, engine: str) -> Iterator[Problem]:
    """Settings of packets that another engine does not look at, each with its place."""
    for name in ("fabric", "set"):
        if engine != "packet" and getattr(scenario.packet, name):
            node, _ = locate(root, ("packet", name))
            yield node.problem(f"the engine `{engine}` has no packets, so this changes nothing", key=f"packet.{name}")


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Sections and plain values in a value, each with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, str(number)))
    else:
        yield path, value


def _bounds_of(field: FieldInfo) -> Iterator[Bounds]:
    """The ranges in a field's type, also within a union or a list."""
    yield from (item for item in field.metadata if isinstance(item, Bounds))
    for hint in _hints(field.annotation):
        yield from (item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Bounds))


def locate(root: Node, path: Iterable[str | int]) -> tuple[Node, tuple[str, ...]]:
    """The deepest node on the path, and the path that was really walked; steps that lead nowhere are skipped."""
    node, walked = root, []
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[step]
        elif isinstance(node.value, list) and str(step).isdecimal() and int(step) < len(node.value):
            node = node.value[int(step)]
        else:
            continue
        walked.append(str(step))
    return node, tuple(walked)


def _problem(item: Any, root: Node, model: type[BaseModel]) -> Problem:
    kind: str = item["type"]
    location: tuple[str | int, ...] = item["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(location, root, model)
    path, _ = _walk(model, location)
    node, walked = locate(root, path)
    key = ".".join(walked) or None
    if kind == "missing" and location:
        name = str(location[-1])
        below = ".".join((*walked, name))
        return node.mark.problem(f"the key `{name}` is missing", key=below, hint=_example(location, model))
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return handler(item, node, key)
    if kind in _DUE:
        return node.mark.problem(f"expected {_DUE[kind]}, got {kind_of(node.value)}", key=key)
    if kind in _BOUND:
        words, name = _BOUND[kind]
        return node.mark.problem(words.format(item["ctx"].get(name)), key=key, found=_shown(node.value))
    context = item.get("ctx", {})
    if "key" in context:  # of a section as a whole, about one key of it
        key = ".".join((*walked, context["key"]))
        node = locate(root, (*path, context["key"]))[0]
    return node.mark.problem(
        item["msg"], key=key, found=_shown(node.value), allowed=context.get("allowed"), hint=context.get("hint")
    )


def _unknown_key(location: tuple[str | int, ...], root: Node, model: type[BaseModel]) -> Problem:
    path, sections = _walk(model, location[:-1])
    parent, walked = locate(root, path)
    name = str(location[-1])
    allowed = sorted({given.alias or key for section in sections for key, given in section.model_fields.items()})
    mark = parent.keys.get(name, parent.mark)
    return mark.problem(
        f"unknown key `{name}`",
        key=".".join((*walked, name)),
        allowed=", ".join(allowed) or None,
        hint=_below(name, sections, parent)
        or _nearest_key(name, allowed, mark, below=bool(walked))
        or (_below(name, [model], root, but=".".join(walked)) if walked else None),
    )


def _below(name: str, sections: Iterable[type[BaseModel]], node: Node, but: str = "") -> str | None:
    """Hint at the place further down at which the key is right, if there is one: first in a section that is there.

    None where that place is `but`: there the key is right with another kind of section only.
    """
    levels = [level for section in sections for level in _places(section).get(name, ())]
    used = [place for level in levels for place in level if _there(node, place)]
    places = used or [place for level in levels[:1] for place in level if len(level) == 1]
    place = min(places, key=len, default=but)
    return None if place == but else f"`{name}` stands under `{place}`"


def _there(node: Node, path: str) -> bool:
    """Whether the scenario has the sections of a path below a node."""
    for key in path.split("."):
        if not isinstance(node.value, dict) or key not in node.value:
            return False
        node = node.value[key]
    return True


@cache
def _places(section: type[BaseModel]) -> dict[str, list[list[str]]]:
    """Paths of sections to every key below a section: the shortest first, equally long ones in one list."""
    found: dict[str, list[list[str]]] = {}
    level: list[tuple[str, type[BaseModel]]] = [("", section)]
    seen = {section}
    while level:
        fresh: dict[str, set[str]] = {}
        deeper = []
        for path, one in level:
            for key, field in one.model_fields.items():
                word = field.alias or key
                if path:
                    fresh.setdefault(word, set()).add(path)
                below = [part for part in _within(one, key) if part not in seen]
                seen.update(below)
                deeper += [(f"{path}.{word}" if path else word, part) for part in below]
        for word, paths in fresh.items():
            found.setdefault(word, []).append(sorted(paths))
        level = deeper
    return found


def _nearest_key(name: str, allowed: Sequence[str], mark: Mark, *, below: bool) -> str | None:
    """The nearest right spelling; on the command line short names are right too, elsewhere their whole path is."""
    if below:
        return did_you_mean(name, allowed)
    if mark.file.startswith("--"):
        return did_you_mean(name, [*allowed, *SHORT])
    short = suggest(name, SHORT)
    return did_you_mean(name, allowed) or (f"did you mean `{SHORT[short]}`?" if short else None)


def _wrong_word(item: Any, node: Node, key: str | None) -> Problem:
    allowed = _quoted(item["ctx"]["expected"])
    return node.mark.problem(
        f"expected one of the allowed values, got {_shown(node.value)}",
        key=key,
        allowed=", ".join(allowed),
        hint=did_you_mean(str(node.value), allowed),
    )


def _wrong_tag(item: Any, node: Node, key: str | None) -> Problem:
    context = item["ctx"]
    tag, name = context["tag"], context["discriminator"].strip("'")
    allowed = _quoted(context["expected_tags"])
    mark: Mark = node.mark
    if isinstance(node.value, dict) and name in node.value:
        mark = node.value[name].mark
    names = [part for part in (key or "").split(".") if part and not part.isdecimal()]
    what = names[-1].replace("_", " ") if names else "kind"
    what = "kind of stage" if names[-2:-1] == ["stages"] else {"faults": "fault"}.get(what, what)
    return mark.problem(
        f"there is no {what} `{tag}`",
        key=f"{key}.{name}" if key else name,
        allowed=", ".join(allowed),
        hint=did_you_mean(tag, allowed),
    )


def _no_tag(item: Any, node: Node, key: str | None) -> Problem:
    name = item["ctx"]["discriminator"].strip("'")
    if not isinstance(node.value, dict):
        return node.mark.problem(
            f"expected a name, or a section with the key `{name}`, got {kind_of(node.value)}", key=key
        )
    return node.mark.problem(f"the key `{name}` is missing", key=f"{key}.{name}" if key else name)


_HANDLERS: dict[str, Callable[[Any, Node, str | None], Problem]] = {
    "literal_error": _wrong_word,
    "union_tag_invalid": _wrong_tag,
    "union_tag_not_found": _no_tag,
}


def _quoted(text: str) -> list[str]:
    """The words of pydantic's list `'a', 'b' or 'c'`."""
    return [part.strip().strip("'") for part in text.replace(" or ", ", ").split(",") if part.strip()]


def _walk(model: type[BaseModel], location: Iterable[str | int]) -> tuple[tuple[str | int, ...], list[type[BaseModel]]]:
    """Target of a pydantic location.

    Returns:
        The location without the tags of unions, which pydantic puts between a key and the keys below it, and the
        sections that may stand there.
    """
    hints: list[Any] = [model]
    path: list[str | int] = []
    for step in location:
        if isinstance(step, str) and any(_is_tagged(hint) for hint in hints):
            options = [option for hint in hints for option in _options(hint)]
            hints = [option for option in options if _has_tag(option, step)] or options
            continue
        path.append(step)
        hints = [part for hint in hints for part in _below_step(hint, step)] or hints
    options = [option for hint in hints for option in _options(hint)]
    return tuple(path), [option for option in options if _is_section(option)]


def _below_step(hint: Any, step: str | int) -> list[Any]:
    """Types of what stands under a key, or of an item of a list."""
    found: list[Any] = []
    for option in _options(hint):
        parts = typing.get_args(option)
        if _is_section(option):
            fields = (field for name, field in option.model_fields.items() if step == (field.alias or name))
            found += [typing.Annotated[(field.annotation, *field.metadata, _tagging(field))] for field in fields]
        elif typing.get_origin(option) is tuple and isinstance(step, int):
            found += [parts[0] if parts[-1] is Ellipsis else parts[min(step, len(parts) - 1)]]
        elif typing.get_origin(option) is dict:
            found += parts[1:]
    return found


def _tagging(field: FieldInfo) -> Discriminator | None:
    """The key by which a union distinguishes its types."""
    return Discriminator(field.discriminator) if isinstance(field.discriminator, str) else field.discriminator


def _options(hint: Any) -> list[Any]:
    """The types that a hint allows, without what is annotated to them."""
    if typing.get_origin(hint) is typing.Annotated:
        return _options(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [option for part in typing.get_args(hint) for option in _options(part)]
    return [hint]


def _is_tagged(hint: Any) -> bool:
    """Whether a tag chooses among the types of a hint."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(_is_tagged, typing.get_args(hint)))
    metadata = getattr(hint, "__metadata__", ())
    named = any(isinstance(item, Discriminator) or getattr(item, "discriminator", None) for item in metadata)
    return named or (bool(metadata) and _is_tagged(typing.get_args(hint)[0]))


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and not typing.get_args(hint) and issubclass(hint, BaseModel)


def _within(section: type[BaseModel], name: str) -> list[type[BaseModel]]:
    return list(filter(_is_section, _hints(section.model_fields[name].annotation)))


def _has_tag(section: Any, tag: str) -> bool:
    return _is_section(section) and any(
        typing.get_origin(field.annotation) is typing.Literal and tag in typing.get_args(field.annotation)
        for field in section.model_fields.values()
    )


def _example(location: tuple[str | int, ...], model: type[BaseModel]) -> str | None:
    name = str(location[-1])
    for section in _walk(model, location[:-1])[1]:
        field = section.model_fields.get(name)
        if field is not None and field.examples:
            return f"write for example `{name}: {field.examples[0]}`"
    return None


def _shown(value: Any) -> str:
    text = kind_of(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _order(problem: Problem) -> tuple[str, int, int, str]:
    return (problem.file or "", problem.line or 0, problem.column or 0, problem.key or "")
