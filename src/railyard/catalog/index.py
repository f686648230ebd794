"""Names and aliases of one kind, without reading whole entries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import did_you_mean
from railyard.kit.schema.yaml import events_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_NEAR = 3
_BETWEEN = re.compile(r"[^a-z0-9.+]+")


def key_of(word: str) -> str:
    """A name in the catalogue's own spelling: small letters, single hyphens."""
    return _BETWEEN.sub("-", word.lower()).strip("-")


# Words at the end of a published name that say how weights are stored, or what else was trained, not the shape.
_PRECISION = re.compile(
    r"(fp|nvfp|mxfp|int)(4|6|8)|bf16|w\d+a\d+(fp8)?|awq|gptq|gguf|\dbit|bnb|fp8dynamic|quantized(\.w\d+a\d+)?"
)
_HOW = re.compile(r"dynamic|static|pertensor|per|tensor|block|kv|v\d|preview|ptpc|g\d+|torchao|sym|\d+g|mtp")
_STAGE = re.compile(r"-(instruct|chat|it|base|thinking|pt|hf)(-\d{4})?$")


def looser(word: str) -> Iterator[str]:
    """Names of models of the same shape: without the precision of the weights, its publisher, and stages of training.

    A publisher's name is left out only with a precision: who quantizes a model puts it under a name of its own.
    """
    name, owner = word.lower().rpartition("/")[2], word.lower().rpartition("/")[0]
    parts = re.split(r"[-_ ]+", name)
    first = next((at for at, part in enumerate(parts) if at and _PRECISION.fullmatch(part)), len(parts))
    stored = all(_PRECISION.fullmatch(part) or _HOW.fullmatch(part) for part in parts[first:])
    plain = "-".join(parts[:first] if stored else parts)
    for short in dict.fromkeys((plain, _STAGE.sub("", plain))):
        yield f"{owner}/{short}"
        if stored and first < len(parts):
            yield short


def device_spellings(name: str, memory_gib: float) -> list[str]:
    """Names under which the catalogue may know a device, the most exact first."""
    plain = re.sub(r"^(NVIDIA|AMD|Tesla|Instinct|GeForce)\s+", "", re.sub(r"^(NVIDIA|AMD)\s+", "", name)).strip()
    chip = re.match(r"[A-Za-z]+\d+[A-Za-z]*", plain)
    if chip is None:
        return [name, plain]
    short = chip.group(0)
    # Words of size, memory and socket leave the chip what it is; any other word (PCIe, NVL) makes it another device.
    rest = re.sub(r"\b(\d+ ?GB|HBM\w*|SXM\d*|AC|OAM)\b", "", plain[len(short) :], flags=re.IGNORECASE)
    last = [short] if not re.search(r"\w", rest) else []
    sized = [f"{short} {round(memory_gib)}GB"] if memory_gib and last else []
    return [name, plain, re.sub(r"\s*HBM\w*$", "", plain), *sized, *last]


def folded(word: str) -> str:
    """The part of a name that its spellings share: letters, digits, points and plus signs."""
    return _BETWEEN.sub("", word.lower())


class NameIndex:
    """Finds entries by name or alias; aliases are read only when a name is not a file's own.

    Args:
        folder: Where the entries of the kind lie, one YAML file each, named after the entry.
        loosely: Whether a name that is not known is looked up without what says nothing of a model's shape.
    """

    def __init__(self, folder: Path, *, loosely: bool = False) -> None:
        self._loosely = loosely
        self._files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._names = {folded(name): name for name in self._files}
        self._extra: dict[str, str] = {}
        self._extra_spellings: list[str] = []
        self._aliases: dict[str, str] | None = None
        self._spellings: list[str] = []

    def add(self, name: str, aliases: Iterable[str]) -> None:
        """Makes an entry known that has no file here; its names win over those of the files."""
        for word in (name, *aliases):
            self._extra[folded(word)] = name
            self._extra_spellings.append(word)

    def names(self) -> list[str]:
        """Names, sorted, without aliases."""
        return sorted({*self._files, *self._extra.values()})

    def has_file(self, name: str) -> bool:
        """Whether the catalogue itself has an entry of that name."""
        return name in self._files

    def find(self, word: str) -> str | None:
        """The name that a name or alias stands for; None when it stands for nothing."""
        found = self._exactly(word)
        if found is None and self._loosely:
            return next((name for name in map(self._exactly, looser(word)) if name), None)
        return found

    def _exactly(self, word: str) -> str | None:
        key = folded(word)
        for known in (self._extra, self._names):
            if key in known:
                return known[key]
        return self._alias_table().get(key)

    def spellings(self) -> list[str]:
        """Names and aliases as they are written."""
        self._alias_table()
        return [*self._spellings, *self._extra_spellings, *self._files]

    def suggestion(self, word: str) -> str | None:
        """A hint with the nearest spelling; None when nothing comes near.

        A word that is a part of names (`h100` of `hgx-h100`) stands for those with the fewest other parts: spelt most
        like it may be one vendor's alias.
        """
        key = key_of(word)
        parted = {name: name.split("-") for name in self.names()}
        having = {name: len(parts) for name, parts in parted.items() if key in parts}
        near = [f"`{name}`" for name, parts in having.items() if parts == min(having.values())]
        if near:
            return f"did you mean {' or '.join(near[:_MOST_NEAR])}?"
        return did_you_mean(word, self.spellings())

    def aliases(self) -> list[tuple[str, str]]:
        """Every alias in a file, with the name it stands for."""
        return [(alias, name) for name, path in self._files.items() for alias in scan_aliases(path.read_text("utf-8"))]

    def _alias_table(self) -> dict[str, str]:
        if self._aliases is None:
            listed = self.aliases()
            self._aliases = {folded(alias): name for alias, name in listed}
            self._spellings = [alias for alias, _ in listed]
        return self._aliases


def scan_aliases(text: str) -> list[str]:
    """The `aliases` of an entry's file; reads no further than they go."""
    import yaml

    events = events_of(text)
    for event in events:
        if isinstance(event, yaml.ScalarEvent) and event.value == "aliases":
            return list(_scalars_of_sequence(events))
        if isinstance(event, yaml.ScalarEvent) and event.value == "sources":
            break
    return []


def _scalars_of_sequence(events: Iterator[Any]) -> Iterator[str]:
    import yaml

    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            return
        if isinstance(event, yaml.ScalarEvent):
            yield event.value
