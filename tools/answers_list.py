"""Reads `answers.yaml`: which commands give the answers. Each is named by its own text."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("answers.yaml")


@dataclass(frozen=True)
class Command:
    """One entry of the file of answers.

    Attributes:
        name: The command's text, without where its output goes.
        arguments: What follows `railyard`; `{out}` and `{work}` stand for folders of this run.
        first: A command before it, whose output is no answer but the folder `{run}`; or none.
        timeout_s: Seconds after which it is given up.
        tags: Such as `quick`.
    """

    name: str
    arguments: tuple[str, ...]
    first: tuple[str, ...] = ()
    timeout_s: float = 300.0
    tags: frozenset[str] = field(default_factory=frozenset)


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern`, in which `*` stands for anything and nothing else is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def commands(tree: Path, listed: Path = LIST) -> list[Command]:
    """Every command of the list, with patterns of files looked up in `tree`."""
    document = yaml.safe_load(listed.read_text(encoding="utf-8"))
    tags = document.get("tags", {})
    return [entry for group in document["groups"] for entry in _expand(group, tree, tags)]


def _expand(group: dict[str, Any], tree: Path, tags: dict[str, list[str]]) -> list[Command]:
    axes = {key: _values(key, given, tree) for key, given in group.get("each", {}).items()}
    found = []
    for chosen in itertools.product(*axes.values()):
        values = dict(zip(axes, chosen, strict=True))
        name = _put(group["command"], values)
        if any(matches(pattern, name) for pattern in group.get("except", [])):
            continue
        found.append(
            Command(
                name,
                tuple(shlex.split(f"{group.get('as', name)} {group.get('with', '')}")),
                tuple(shlex.split(_put(group.get("first", ""), values))),
                float(group.get("timeout_s", 300)),
                frozenset(tag for tag, wanted in tags.items() if any(matches(text, name) for text in wanted)),
            )
        )
    return found


def _values(key: str, given: list[str], tree: Path) -> list[str]:
    found = []
    for value in given:
        paths = sorted(tree.glob(value)) if "*" in value and key in {"file", "page"} else [tree / value]
        names = [path.relative_to(tree).as_posix() for path in paths] if key in {"file", "page"} else [value]
        found += [text for name in names for text in (scenarios(tree / name, name) if key == "page" else [name])]
    return found


def _put(template: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        template = template.replace(f"{{{key}}}", value)
    return template


def scenarios(page: Path, name: str) -> list[str]:
    """The complete scenarios among the YAML blocks of a page, each as `PAGE#SCENARIO`."""
    return [f"{name}#{block}" for block in blocks(page)]


def blocks(page: Path) -> dict[str, str]:
    """The text of every block of a page that is a complete scenario, by the scenario's name."""
    found = {}
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        document = yaml.safe_load(text)
        if isinstance(document, dict) and {"name", "cluster", "workload"} <= document.keys():
            found[str(document["name"])] = text
    return found


def lay_out(work: Path, tree: Path, listed: Path = LIST) -> None:
    """Writes the list's own files, and parts of larger ones, below `work`."""
    for name, given in yaml.safe_load(listed.read_text(encoding="utf-8")).get("files", {}).items():
        content = _sampled(tree / given["of"], given["every"]) if isinstance(given, dict) else given
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            (work / name).write_bytes(content)
        else:
            (work / name).write_text(content, encoding="utf-8")


def _sampled(table: Path, every: int) -> str:
    head, *rows = table.read_text(encoding="utf-8").splitlines(keepends=True)
    return head + "".join(rows[::every])
