"""Controls and balancers out of a user's file: `user:path/to/file.py:Name`."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.plugins import module_of

T = TypeVar("T")

PREFIX = "user:"
_FORM = "user:path/to/file.py:Name"


def is_user(text: str) -> bool:
    """Whether a setting names something in a user's file."""
    return text.startswith(PREFIX)


def load(text: str, kind: type[T], *, base: Path | None = None) -> T:
    """What `user:path/to/file.py:Name` names. The file is run.

    Args:
        text: The setting.
        kind: `UserControl` or `UserBalancer`.
        base: Folder that a relative path begins at; the current one by default.

    Raises:
        InputError: The form is wrong, the file cannot be read or run, or holds nothing of that name.
    """
    file, sign, name = text.removeprefix(PREFIX).rpartition(":")
    if not is_user(text) or not sign or not file or not name.isidentifier():
        raise InputError("expected a file and a name in it", found=text, allowed=_FORM)
    path = (base or Path()) / file
    module = module_of(path)
    made = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name not in made:
        there = "something else" if hasattr(module, name) else "nothing"
        raise InputError(
            f"{there} of that name is in the file",
            file=path,
            found=name,
            allowed=sorted(made) or f"a class under @packet.{'control' if 'Control' in kind.__name__ else 'balancer'}",
            hint=did_you_mean(name, made),
        )
    return made[name]
