"""Writes `THIRD-PARTY.txt`: the licences of what lies inside Railyard's wheel, as their authors give them.

That is the npm packages whose code is in the committed bundle, and nanobind, which is compiled into the extension.

    make frontend    # runs it, since it needs what `npm ci` has installed
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pins

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = pins.ROOT / "THIRD-PARTY.txt"
MODULES = pins.ROOT / "frontend"


def licence_of(folder: Path) -> str:
    found = sorted(path for path in folder.iterdir() if path.name.upper().startswith(("LICENSE", "LICENCE")))
    if not found:
        raise SystemExit(f"{folder.name}: no licence file; `npm ci` first?")
    return found[0].read_text(encoding="utf-8").strip()


def bundled() -> list[tuple[str, str]]:
    lock = json.loads((MODULES / "package-lock.json").read_text(encoding="utf-8"))
    inside = [(place, row) for place, row in sorted(lock["packages"].items()) if place and not row.get("dev")]
    return [
        (f"{place.removeprefix('node_modules/')} {row['version']}", licence_of(MODULES / place))
        for place, row in inside
    ]


def compiled_in() -> tuple[str, str]:
    version = metadata.version("nanobind")
    files = metadata.files("nanobind") or []
    (path,) = (path for path in files if path.name == "LICENSE" and ".dist-info" in str(path))
    return f"nanobind {version}", path.read_text(encoding="utf-8").strip()


def main() -> None:
    parts = [*bundled(), compiled_in()]
    text = "".join(f"{'=' * 80}\n{name}\n{'=' * 80}\n\n{words}\n\n" for name, words in parts)
    WRITTEN.write_text("The software below lies inside Railyard's wheel.\n\n" + text, encoding="utf-8")
    print(f"{WRITTEN.name}: {len(parts)} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
