"""Compares two files of `tools/answers` leaf by leaf, to the last digit.

tools/same-answers OLD NEW [--exceptions FILE.yaml] [--only PATTERN] [--both]

Ends with 1 when a leaf differs or is missing that no exception covers. New leaves and new commands are listed and
allowed; prose that changed its words and none of its numbers is counted as reworded and allowed. The file of
exceptions is a list, each with its reason:

    - {entry: "run *", leaf: "*.power.*", reason: why these may differ}
    - {entry: "run *", leaf: "*", within: 1e-6, reason: digests may differ, numbers by no more than this share}
    - {entry: "run *", renamed: "timeline.parquet -> record.parquet", reason: one format for what happened}
    - {entry: "old command", command: "new command", reason: the option has another name}
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from answers_list import matches

from railyard.measure.result.section import near, reworded, same

EXCEPTIONS = Path(__file__).with_name("answers-exceptions.yaml")
KINDS = ("equal", "reworded", "changed", "missing", "excepted", "new")
FAILING = ("changed", "missing")
SHOWN = 5

Leaves = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """One leaf that is not equal; `old` or `new` is None where there is none."""

    leaf: str
    kind: str
    old: object
    new: object


def read(file: Path) -> dict[str, Leaves]:
    """Leaves by command."""
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {line["name"]: line["leaves"] for line in lines}


def read_exceptions(file: Path) -> list[dict[str, Any]]:
    """The exceptions of a file, none where there is no file.

    Raises:
        SystemExit: One has no reason, or says nothing of a leaf, a name or a command.
    """
    found = yaml.safe_load(file.read_text(encoding="utf-8")) or [] if file.exists() else []
    for exception in found:
        if (
            not exception.get("reason")
            or "entry" not in exception
            or not exception.keys() & {"leaf", "renamed", "command"}
        ):
            sys.exit(f"{file}: expected entry, reason and one of leaf, renamed, command, got {exception}")
    return found


def kind(old: object, new: object) -> str:
    """How a leaf differs, of `KINDS`."""
    if same(old, new):
        return "equal"
    return "reworded" if reworded(old, new) else "changed"


def compare(
    entry: str, old: Leaves, new: Leaves, exceptions: list[dict[str, Any]]
) -> tuple[Counter[str], list[Difference]]:
    """How many leaves of a command are of each kind, and those that are not equal."""
    ours = [exception for exception in exceptions if matches(exception["entry"], entry)]
    old = {_renamed(leaf, ours): value for leaf, value in old.items()}
    found = [
        Difference(leaf, kind(value, new[leaf]) if leaf in new else "missing", value, new.get(leaf))
        for leaf, value in old.items()
    ]
    found += [Difference(leaf, "new", None, new[leaf]) for leaf in new.keys() - old.keys()]
    found = [_excepted(difference, ours) for difference in found]
    return Counter(difference.kind for difference in found), [each for each in found if each.kind != "equal"]


def _renamed(leaf: str, exceptions: list[dict[str, Any]]) -> str:
    for exception in exceptions:
        if "renamed" in exception:
            before, _, after = exception["renamed"].partition(" -> ")
            leaf = leaf.replace(before, after)
    return leaf


def _excepted(found: Difference, exceptions: list[dict[str, Any]]) -> Difference:
    covered = any(
        matches(exception["leaf"], found.leaf) and near(found.old, found.new, float(exception.get("within", math.inf)))
        for exception in exceptions
        if "leaf" in exception
    )
    if covered and found.kind in FAILING:
        return Difference(found.leaf, "excepted", found.old, found.new)
    return found


def compare_all(old: dict[str, Leaves], new: dict[str, Leaves], exceptions: list[dict[str, Any]]) -> int:
    """Prints the table and the first differences of each command; how many leaves fail."""
    moved = {each["entry"]: each["command"] for each in exceptions if "command" in each}
    total: Counter[str] = Counter()
    for entry, leaves in old.items():
        now = moved.get(entry, entry)
        if now not in new:
            counts, differences = compare(entry, {"(the command)": "ran"}, {}, exceptions)
        else:
            counts, differences = compare(entry, leaves, new[now], exceptions)
        _print(entry, counts, differences, new.get(now, {}))
        total += counts
    for entry in new.keys() - old.keys() - set(moved.values()):
        print(f"new command: {entry}")
    print("  ".join(f"{total[name]} {name}" for name in KINDS), f"in {len(old)} commands")
    return sum(total[name] for name in FAILING)


def _print(entry: str, counts: Counter[str], differences: list[Difference], new: Leaves) -> None:
    print("  ".join(f"{counts[name]:>6} {name}" for name in KINDS if counts[name]), f"  {entry}")
    for difference in [each for each in differences if each.kind in FAILING][:SHOWN]:
        print(f"         {difference.kind} {difference.leaf}: {difference.old!r} -> {_new(difference, new)}")


def _new(difference: Difference, new: Leaves) -> str:
    """The new value; for a missing digest, the leaf that has it now."""
    if difference.kind != "missing":
        return repr(difference.new)
    value = difference.old
    moved = [leaf for leaf, other in new.items() if other == value] if "sha256:" in str(value) else []
    return f"nothing (the same stands in {moved[0]})" if moved else "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--exceptions", type=Path, default=EXCEPTIONS)
    parser.add_argument("--only", default="*", help="commands that fit; * stands for anything")
    parser.add_argument("--both", action="store_true", help="only the commands that both files hold")
    given = parser.parse_args()
    old, new = read(given.old), read(given.new)
    wanted = {
        entry: leaves
        for entry, leaves in old.items()
        if matches(given.only, entry) and (not given.both or entry in new)
    }
    sys.exit(1 if compare_all(wanted, new, read_exceptions(given.exceptions)) else 0)


if __name__ == "__main__":
    main()
