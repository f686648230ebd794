"""Writes the hashes of all files of every pinned package into the lock files.

A version is changed by hand, in its line `name==version`; this asks the index (the machine's choice, never written
down) for the SHA-256 of each wheel, for whatever machine, and of the source archive, by `uv pip compile --no-deps`.
That no package is missing shows at the next installation: pip refuses what a lock file does not name.

    make lock
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pins

COMPILE = [
    "pip",
    "compile",
    "-",
    "--quiet",
    "--no-deps",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
]


def hashed(lock: pins.Lock, uv: str) -> str:
    """Return the text of a lock file with all hashes."""
    asked = "\n".join(f"{pin.name}=={pin.version}" for pin in lock.pins)
    compiled = subprocess.run([uv, *COMPILE], input=asked, capture_output=True, text=True, check=False, cwd=pins.ROOT)
    if compiled.returncode:
        raise SystemExit(f"{lock.path.name}: {compiled.stderr.strip()}")
    above = [*lock.words, *(f"-r {parent.name}" for parent in lock.parents)]
    return "\n".join(above) + "\n" + compiled.stdout


def main() -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise SystemExit("tools/lock.py needs uv: `make lock` installs it from requirements/release.txt")
    for path in pins.LOCKS:
        text = hashed(pins.read(path), uv)
        partial = path.with_suffix(".tmp")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
        print(f"{path.name}: {len(pins.read(path).pins)} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
