"""Controls and balancers out of a user's file: `user:path/to/file.py:Name`."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

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
        raise InputError("a file and a name in it are wanted", found=text, allowed=_FORM)
    path = (base or Path()) / file
    module = _module(path)
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


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"railyard_user_{path.stem}", path) if path.suffix == ".py" else None
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError("there is no such Python file", file=path, found=str(path), allowed="a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"the file is not Python: {error.msg}", file=path, line=error.lineno) from None
    except (Exception, SystemExit) as error:  # WHY all: it is the user's own program and may raise anything
        frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"the file raises {said}", file=path, line=frames[-1] if frames else None) from None
    return module
