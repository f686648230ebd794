"""Two versions against each other, by turns: user and system CPU of each benchmark, and what one takes of the other.

    python benchmarks/compare.py OLD NEW [--only NAME ...] [--pairs N]

OLD and NEW are checkouts of the repository with Railyard installed in their `.venv`; each runs its own benchmark files.
Runs alternate (old, new, new, old, ...), each in a process of its own. Other work on the machine moves single runs by
tens of per cent, so a benchmark counts as slower only where both the median of the ratios of pairs and the ratio of the
least times are above the limit. Exit code 1 when one is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1.05


@dataclass(frozen=True)
class Case:
    """A command of a checkout: the interpreter with these arguments.

    Attributes:
        arguments: Of the interpreter; `{out}` is a fresh folder.
        most_s: CPU that no run of the new version may exceed; infinite where only the old one is the measure.
    """

    arguments: tuple[str, ...]
    most_s: float = float("inf")


def railyard(*arguments: str) -> tuple[str, ...]:
    return ("-c", "from railyard.face.cli import main; main()", *arguments)


EXAMPLE = "examples/llama3-70b-1024-h100.yaml"
TRACE = "examples/serving/traces/AzureLLMInferenceTrace_code.csv"

CASES = {
    "help": Case(railyard("--help"), most_s=0.3),
    "make-run": Case(railyard("compare", EXAMPLE, "--quiet", "--out", "{out}")),
    "step-405b": Case(("benchmarks/engine/full_step.py", "16384", "--one")),
    "graph-build": Case(("benchmarks/graph_build.py", "--one", "16384")),
    "packet-128": Case(("benchmarks/packet.py", "--one", "permutation-128-nscc")),
    "packet-128-dcqcn": Case(("benchmarks/packet.py", "--one", "permutation-128-dcqcn")),
    "packet-collectives": Case(
        railyard(
            "run", "examples/packet/all-reduce.yaml", "--quiet", "--out", "{out}", "--set", "packet.budget_hops=1 M"
        )
    ),
    "serving-100k": Case(("benchmarks/serving.py", "--one", TRACE, "100000", "64")),
    "topology-100k": Case(("benchmarks/cluster.py", "--one", "100000", "three-tier", "roce", "tomahawk-5")),
}


def cpu_s(checkout: Path, case: Case) -> float:
    """User and system seconds of one run, the interpreter's start included.

    Raises:
        RuntimeError: The run failed; with what it wrote.
    """
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as output:
        command = [str(checkout / ".venv/bin/python"), *(word.format(out=out) for word in case.arguments)]
        process = subprocess.Popen(command, cwd=checkout, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}:\n{output.read().decode(errors='replace')[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def pairs_of(old: Path, new: Path, case: Case, pairs: int) -> list[tuple[float, float]]:
    """(old, new) seconds; every second pair runs the new version first."""
    found = []
    for turn in range(pairs):
        order = (old, new) if turn % 2 == 0 else (new, old)
        seconds = {checkout: cpu_s(checkout, case) for checkout in order}
        found.append((seconds[old], seconds[new]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    print(f"{'benchmark':20}{'old CPU s':>10}{'new CPU s':>10}{'median':>8}{'least':>8}")
    missed = 0
    for name in given.only:
        case = CASES[name]
        try:
            found = pairs_of(given.old.resolve(), given.new.resolve(), case, given.pairs)
        except RuntimeError as error:  # an old version may have a benchmark that never ran: the others still count
            print(f"{name:20} FAILED: {error}", flush=True)
            missed += 1
            continue
        median = statistics.median(new / old for old, new in found)
        old, new = (min(column) for column in zip(*found, strict=True))
        slower = min(median, new / old) > LIMIT or new > case.most_s
        missed += slower
        print(f"{name:20}{old:10.2f}{new:10.2f}{median:8.2f}{new / old:8.2f}{'  SLOWER' * slower}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
