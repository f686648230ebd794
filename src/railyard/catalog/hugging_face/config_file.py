"""A `config.json` whose values are asked for by key, kind and default, and which remembers what was wrong with them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
LARGEST_COUNT = 10**9
# Several models hide the language model's own fields one level down.
NESTED_KEYS = ("text_config", "language_config", "llm_config")


class ConfigFile:
    """The fields of one configuration file.

    Args:
        path: A `config.json`, or the folder of a model in which it lies.

    Raises:
        InputError: The file is missing, unreadable, too large, no JSON or no object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / "config.json" if path.is_dir() else path
        self.text = _read_text(self.path)
        self.fields = _parse(self.text, self.path)
        self.outer = self.fields
        self.problems: list[Problem] = []
        for key in NESTED_KEYS:
            if isinstance(self.fields.get(key), dict):
                self.fields = {**{"model_type": self.fields.get("model_type")}, **self.fields[key]}
                break

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

    def table(self, key: str) -> dict[str, object]:
        """An object under the key; empty when it is absent."""
        value = self.fields.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._report(key, "must be an object", found=value)
            return {}
        return value

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
        details_text = {name: None if value is None else str(value)[:80] for name, value in details.items()}
        self.problems.append(Problem(message, file=str(self.path), line=line, column=column, key=key, **details_text))

    def _place(self, key: str) -> tuple[int | None, int | None]:
        found = re.search(rf'"{re.escape(key)}"\s*:', self.text)
        if found is None:
            return None, None
        before = self.text[: found.start()]
        return before.count("\n") + 1, len(before) - before.rfind("\n")


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise InputError("there is no such file", file=path, key=str(path), allowed="a config.json or its folder")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"is too large for a model configuration: {len(raw)} bytes", file=path)
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
