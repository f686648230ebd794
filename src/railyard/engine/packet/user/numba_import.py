"""Numba, which is installed only where users bring functions of their own."""

from __future__ import annotations

import importlib
from typing import Any

from railyard.kit.errors import InputError


def numba_module() -> Any:
    """Numba.

    Raises:
        InputError: It is not installed.
    """
    try:
        return importlib.import_module("numba")
    except ImportError as error:
        raise InputError(
            "functions of your own need Numba, which is not installed",
            found=str(error),
            hint="install it by `pip install 'railyard[numba]'`",
        ) from None
