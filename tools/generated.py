"""Writes generated files, or says with `--check` whether those that are committed are fresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit import registry

if TYPE_CHECKING:
    from pathlib import Path


registry._loaded.add(registry.GROUP)  # pages list what Railyard ships, not what other packages add


def write(tool: str, files: dict[Path, str], arguments: list[str]) -> int:
    """Writes files, or compares them.

    Args:
        tool: Name of the tool's file, for the message.
        files: Text of each file.
        arguments: `--check` compares only.

    Returns:
        Exit code: 1 where a file is stale.
    """
    if "--check" in arguments:
        stale = [path.name for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
        print(f"{', '.join(stale)} stale: run python tools/{tool}" if stale else "fresh")
        return int(bool(stale))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0
