"""Files that appear in full or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from railyard.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Writes a file beside its place and moves it there.

    Raises:
        InputError: It cannot be written; nothing is left behind.
    """
    name = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name[:100]}.", delete=False, encoding="utf-8"
        ) as file:
            name = file.name
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=path) from error
    finally:
        if name:
            Path(name).unlink(missing_ok=True)
