"""A `config.json` whose values are asked for by key, kind and default, and which remembers what was wrong with them."""

from __future__ import annotations

import json
import re
from copy import copy
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
LARGEST_COUNT = 10**9
# Several models hide the language model's own fields one level down.
NESTED_KEYS = ("thinker_config", "text_config", "language_config", "llm_config")
# What the outer level says for the language model too.
_OUTER_KEYS = ("model_type", "tie_word_embeddings")
# More layers than any decoder has; each is looked at.
MOST_LAYERS = 10_000


class ConfigFile:
    """The keys of one configuration.

    Args:
        path: The file in which they stand.
        text: The text of that file, in which a key's line is looked up.
        fields: The keys and their values.
    """

    def __init__(self, path: Path, text: str, fields: dict[str, Any]) -> None:
        self.path = path
        self.text = text
        self.fields = fields
        self.outer = self.fields
        self.problems: list[Problem] = []
        self.assumed: list[str] = []
        for key in NESTED_KEYS:
            if isinstance(self.fields.get(key), dict):
                said = {name: self.fields[name] for name in _OUTER_KEYS if name in self.fields}
                self.fields = {**said, **self.fields[key]}

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """Reads a `config.json`.

        Args:
            path: The file, or the folder of a model in which it lies.

        Raises:
            InputError: The file is missing, unreadable, too large, no JSON or no object.
        """
        found = path / "config.json" if path.is_dir() else path
        text = _read_text(found)
        return cls(found, text, _parse(text, found))

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.fields.get(key) is not None

    def count(self, *keys: str, default: int | None = None) -> int:
        """An integer under the first of the keys that is there.

        Args:
            keys: The key and its other spellings.
            default: Taken when none is there; without one the key is due.
        """
        key = next((name for name in keys if self.has(name)), None)
        if key is None:
            if default is None:
                hint = did_you_mean(keys[0], [known for known in self.fields if known not in keys])
                self._report(keys[0], "is missing", allowed="an integer", hint=hint)
            return default or 0
        return self._integer(key, self.fields[key])

    def optional_count(self, key: str) -> int | None:
        """An integer, or None when the key is absent or null."""
        return self._integer(key, self.fields[key]) if self.has(key) else None

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false under the key."""
        value = self.fields.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._report(key, "must be true or false", found=value, allowed="true, false")
            return default
        return value

    def word(self, key: str, default: str = "") -> str:
        """A text under the key."""
        value = self.fields.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self._report(key, "must be a text", found=value)
            return default
        return value

    def words(self, key: str) -> list[str]:
        """A list of texts under the key; empty when it is absent."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._report(key, "must be a list of texts", found=value)
            return []
        return value

    def numbers(self, key: str) -> list[int]:
        """A list of integers under the key; empty when it is absent."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or any(isinstance(item, bool) or not isinstance(item, int) for item in value):
            self._report(key, "must be a list of integers", found=value)
            return []
        return value

    def per_layer(self, key: str, *, default: int) -> int:
        """An integer, or a list of one for each layer that are all the same."""
        value = self.fields.get(key)
        if not isinstance(value, list):
            return self.count(key, default=default)
        found = self.numbers(key)
        if len(set(found)) > 1:
            self._report(key, "differs between layers, which is not read for this family", found=found)
        return found[0] if found else default

    def layers(self, *keys: str) -> int:
        """The number of layers, small enough to look at each.

        Args:
            keys: What it may be called; `num_hidden_layers` when none is given.
        """
        names = keys or ("num_hidden_layers",)
        count = self.count(*names)
        key = next((name for name in names if self.has(name)), None)
        if key is not None and self.fields[key] == count and not 0 < count <= MOST_LAYERS:
            self._report(key, "is not a number of layers", found=count, allowed=f"1 to {MOST_LAYERS}")
            return 0
        return count

    def check_kinds(self, key: str, allowed: set[str]) -> None:
        """Refuses names of layers in a list that mean nothing here."""
        for kind in dict.fromkeys(self.words(key)):
            if kind not in allowed:
                names = ", ".join(sorted(allowed))
                hint = did_you_mean(kind, sorted(allowed))
                self._report(key, f"`{kind}` is not a known kind of layer", found=kind, allowed=names, hint=hint)

    def check_length(self, key: str, found: int, layers: int) -> bool:
        """Whether a list has an item for each layer; refused otherwise."""
        if found != layers:
            self._report(key, "must have an item for each layer", found=found, allowed=layers)
        return found == layers

    def table(self, key: str) -> dict[str, Any]:
        """An object under the key; empty when it is absent."""
        value = self.fields.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._report(key, "must be an object", found=value)
            return {}
        return value

    def inner(self, key: str) -> ConfigFile:
        """The object under the key, asked in the same way; its problems are this file's."""
        found = copy(self)
        found.fields = self.table(key)
        return found

    def outside(self, key: str) -> ConfigFile | None:
        """Another object of the file (a vision tower, say), read in the same way; None where there is none."""
        if not isinstance(self.outer.get(key), dict):
            return None
        found = copy(self)
        found.fields = self.outer[key]
        return found

    def divided(self, key: str, above: int, below_key: str, below: int) -> int:
        """`above / below`, which has to come out even.

        Args:
            key: What `above` is called in the file.
            above: The number to divide.
            below_key: What `below` is called.
            below: The divisor.
        """
        if below <= 0 or above % below:
            self._report(key, f"must be a multiple of {below_key} ({below})", found=above)
            return 0
        return above // below

    def refuse(self, key: str, message: str, **details: object) -> None:
        """Notes a problem with a key."""
        self._report(key, message, **details)

    def raise_problems(self) -> None:
        """Raises every problem noted so far.

        Raises:
            InputError: There is at least one.
        """
        if self.problems:
            raise InputError.many(self.problems)

    def _integer(self, key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
            self._report(key, "expected an integer", found=value, allowed=f"0 to {LARGEST_COUNT}")
            return 0
        return value

    def _report(self, key: str, message: str, **details: object) -> None:
        line, column = self._place(key)
        longest = {"found": 80}
        details_text: dict[str, Any] = {
            name: None if value is None else str(value)[: longest.get(name, 4000)] for name, value in details.items()
        }
        self.problems.append(Problem(message, file=str(self.path), line=line, column=column, key=key, **details_text))

    def _place(self, key: str) -> tuple[int | None, int | None]:
        found = re.search(rf'(?<![\w"]){re.escape(key)}\s*:|"{re.escape(key)}"\s*:', self.text)
        if found is None:
            return None, None
        before = self.text[: found.start()]
        return before.count("\n") + 1, len(before) - before.rfind("\n")


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise InputError("there is no such file", file=path, key=str(path), allowed="a config.json or its folder")
    raw = read_bytes(path, MAX_BYTES)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", file=path, line=raw[: error.start].count(b"\n") + 1) from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", file=path, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise InputError("is nested too deep", file=path) from None
    except ValueError:
        raise InputError("is not JSON: holds a number of too many digits", file=path) from None
    if not isinstance(value, dict):
        raise InputError("must hold an object", file=path, line=1, found=type(value).__name__, allowed="{...}")
    return value
