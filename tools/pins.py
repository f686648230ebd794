"""The lock files in `requirements/`: packages pinned by version and by the SHA-256 of every file of that version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = tuple(ROOT / "requirements" / f"{name}.txt" for name in ("run", "dev", "fuzz", "release"))
SBOM = ROOT / "sbom" / "railyard.cdx.json"
PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package: normalized name, version, the SHA-256 of its wheels and source archives, and where it stands."""

    name: str
    version: str
    hashes: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class Lock:
    """A lock file: its first words, the lock files it goes on from, and its pins."""

    path: Path
    words: tuple[str, ...]
    parents: tuple[Path, ...]
    pins: tuple[Pin, ...]

    def closure(self) -> tuple[Pin, ...]:
        """Return these pins and those of the files that it names with `-r`."""
        return tuple(pin for parent in self.parents for pin in read(parent).closure()) + self.pins


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        SystemExit: a line is neither words, nor `-r FILE`, nor `name==version` with its hashes.
    """
    words, parents, pins = [], [], []
    lines = path.read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        first, text = number, lines[number].strip()
        while text.endswith("\\"):
            number += 1
            text = f"{text[:-1].strip()} {lines[number].strip()}"
        number += 1
        if text.startswith("#"):
            words.append(text)
        elif text.startswith("-r "):
            parents.append(path.parent / text[3:].strip())
        elif text:
            pins.append(pin_of(text, f"{path.name}:{first + 1}"))
    return Lock(path, tuple(words), tuple(parents), tuple(pins))


def pin_of(text: str, place: str) -> Pin:
    found = PIN.match(text)
    rest = HASH.sub("", text[found.end() :]).strip() if found else text
    if found is None or rest:
        raise SystemExit(
            f"{place}: `{rest[:60]}` is no pin; a line is `name==version` and `--hash=sha256:` of its files"
        )
    return Pin(normalized(found["name"]), found["version"], tuple(HASH.findall(text)), place)
