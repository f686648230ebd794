"""Holds every pinned package of Python and npm against known vulnerabilities.

    make audit                                     # asks PyPI (by pip-audit) and npm
    .venv/bin/python tools/audit.py --advisories FOLDER    # asks nobody: FOLDER holds advisories in OSV's format

Exit status 1: a pinned version has an advisory. A service that cannot be reached has judged nothing: that is said as
SKIPPED, with how many packages were judged, and fails only under `--must`. WHY so carefully: pip-audit closes with "No
known vulnerabilities found" also when the index answered for none of the packages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import osv
import pins


@dataclass(frozen=True)
class Audit:
    """What one source judged: how many packages of how many, what it found, and why it judged no more."""

    source: str
    judged: int
    asked: int
    found: tuple[str, ...] = ()
    why: str = ""


def python_packages() -> list[osv.Package]:
    every = {pin for path in pins.LOCKS for pin in pins.read(path).pins}
    return [osv.Package("PyPI", pin.name, pin.version) for pin in sorted(every, key=lambda pin: pin.name)]


def npm_packages() -> list[osv.Package]:
    lock = json.loads((pins.ROOT / "frontend" / "package-lock.json").read_text(encoding="utf-8"))
    rows = {(place.rpartition("node_modules/")[2], row["version"]) for place, row in lock["packages"].items() if place}
    return [osv.Package("npm", name, version) for name, version in sorted(rows)]


def parsed(command: list[str], folder: Path) -> dict[str, Any]:
    """Return the JSON object that a command prints, an empty one where it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def asked_pypi() -> Audit:
    packages = python_packages()
    files = [part for path in pins.LOCKS for part in ("-r", str(path))]
    quiet = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json"]
    rows = parsed([sys.executable, "-m", "pip_audit", *files, *quiet], pins.ROOT).get("dependencies", [])
    judged = [row for row in rows if "vulns" in row]
    found = {f"{row['name']} {row['version']}: {one['id']}" for row in judged for one in row["vulns"]}
    why = next((row["skip_reason"] for row in rows if "skip_reason" in row), "no answer")
    return Audit("PyPI", len(judged), len(packages), tuple(sorted(found)), why)


def asked_npm() -> Audit:
    packages = npm_packages()
    answer = parsed(["npm", "audit", "--package-lock-only", "--json"], pins.ROOT / "frontend")
    if "vulnerabilities" not in answer:
        return Audit("npm", 0, len(packages), why=str(answer.get("message", "no answer")).partition(" - ")[0])
    found = {f"{name}: {one['severity']}" for name, one in answer["vulnerabilities"].items()}
    return Audit("npm", len(packages), len(packages), tuple(sorted(found)))


def from_folder(folder: Path) -> Audit:
    packages = [*python_packages(), *npm_packages()]
    rows = list(osv.advisories(folder))
    if not rows:
        raise SystemExit(f"{folder}: no advisory in OSV's format is below it")
    found = [f"{one.name} {one.version}: {identity}" for one, identity in osv.hits(rows, packages)]
    return Audit(f"{len(rows)} advisories of {folder.name}", len(packages), len(packages), tuple(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advisories", type=Path, help="a folder of advisories in OSV's format; nobody is asked")
    parser.add_argument("--must", action="store_true", help="fail where a service judged less than all packages")
    asked = parser.parse_args()
    audits = [from_folder(asked.advisories)] if asked.advisories else [asked_pypi(), asked_npm()]
    for audit in audits:
        skipped = f"; SKIPPED {audit.asked - audit.judged}: {audit.why}" if audit.judged < audit.asked else ""
        print(f"{audit.source}: {audit.judged} of {audit.asked} packages judged, {len(audit.found)} found{skipped}")
        for line in audit.found:
            print(f"  {line}")
    short = asked.must and any(audit.judged < audit.asked for audit in audits)
    return int(short or any(audit.found for audit in audits))


if __name__ == "__main__":
    sys.exit(main())
