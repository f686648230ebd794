"""A plugin of pytest: tests run on the core that RAILYARD_CORE names, of another compiler or under sanitizers."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def choose(path: Path) -> None:
    """Puts the extension at `path` in the place of the installed one; before anything of Railyard is imported.

    Raises:
        RuntimeError: It is no extension, or Railyard has its core already.
    """
    spec = importlib.util.spec_from_file_location("railyard._core", path)
    if spec is None or spec.loader is None or "railyard._core" in sys.modules:
        raise RuntimeError(f"the core cannot be taken from {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["railyard._core"] = module
    spec.loader.exec_module(module)


if "RAILYARD_CORE" in os.environ:
    choose(Path(os.environ["RAILYARD_CORE"]))
