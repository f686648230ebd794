"""Every figure of speed: CPU and peak memory of each command and benchmark, against its goal or another version.

    benchmarks/run [NAME ...] [--old CHECKOUT] [--pairs N] [--small] [--verbose]

Each case is one command, in a process of its own and a fresh folder. CHECKOUT is another checkout of the repository,
with Railyard installed in its `.venv`: its own files run the same cases, in turn with these (old, new, new, old, ...).
Other work on the machine moves single runs by tens of per cent: a case is slower only where both the median of the
ratios of pairs and the ratio of the least times say so. `--small` runs every case at a size of seconds, which shows
that it still runs.
Exit code 1 when a case fails or is slower, or a goal is missed without `--small`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.05
SEEN_S = 0.03
"""Differences below it are the clock's: the system counts processor time in steps of some milliseconds."""


@dataclass(frozen=True)
class Case:
    """A command: the interpreter with these words, in the folder of a checkout; `{out}` is a fresh folder.

    Attributes:
        small: At a size of seconds: the same words if empty; None: not at all, for another case runs the same there.
        goal_s: User and system seconds that it may take.
        goal_gb: Peak memory of the largest process.
        needs: A program or a package without which it cannot run.
    """

    words: tuple[str, ...]
    small: tuple[str, ...] | None = ()
    goal_s: float | None = None
    goal_gb: float | None = None
    needs: str = ""

    @property
    def missing(self) -> bool:
        """Whether what it needs is not there."""
        return bool(self.needs) and shutil.which(self.needs) is None and find_spec(self.needs) is None


def railyard(*words: str) -> tuple[str, ...]:
    return ("-m", "railyard", *words)


def run(file: str, *words: str) -> tuple[str, ...]:
    return railyard("run", file, "--quiet", "--out", "{out}", *words)


def file(name: str, *words: str) -> tuple[str, ...]:
    return (f"benchmarks/{name}.py", *words)


def step_405b(gpus: int) -> tuple[str, ...]:
    """Llama 3 405B by the closed form of contention."""
    layout = "{tp: 8, pp: 16, vp: 8, schedule: interleaved, zero: 1, recompute: full, sequence_parallel: true}"
    return run(
        "examples/first.yaml", "--engine", "analytic", "--set", "compare={}", "--set", f"cluster.accelerators={gpus}",
        *("--set", "workload.training.model=llama-3-405b", "--set", f"workload.training.global_batch={gpus // 4}"),
        *("--set", f"workload.training.parallelism={layout}"),
    )  # fmt: skip


def auto(gpus: int) -> tuple[str, ...]:
    """The layout is searched."""
    return run(
        "examples/first.yaml", "--set", "compare={}", "--set", f"cluster.accelerators={gpus}",
        "--set", f"workload.training.global_batch={gpus}",
    )  # fmt: skip


def checks(fabric: str, *words: str, gpus: int = 8192) -> tuple[str, ...]:
    """Every assertion of `examples/checks.yaml` that its fabric allows; exit code 1 would say that one fails."""
    asserted = [
        *("gpu_utilization > 0.5", "step < 2 s", "usd_per_mtoken < 1", "survives any one spine with step < 1.25 x"),
        *("survives any one uplink", "no PFC deadlock"),
        *(["headroom holds at 150 m"] if fabric == "roce" else []),
    ]
    return railyard(
        "check", "examples/checks.yaml", "--quiet", "--set", f"check={json.dumps(asserted)}", *words,
        "--set", f"cluster.back_end.fabric={fabric}", "--set", f"cluster.accelerators={gpus}",
        "--set", f"workload.training.global_batch={gpus}",
    )  # fmt: skip


FIXED = ("--set", "workload.training.parallelism={tp: 2}")
ONE_FLOW = railyard("packet", "--traffic", "tests/engine/packet/data/one.cm")
TRAINING = "validation/data/training"
TRACE = "examples/serving/traces/AzureLLMInferenceTrace_code.csv"

CASES = {
    # Commands
    "help": Case(railyard("--help"), goal_s=0.1),
    "import": Case(("-c", "import railyard"), goal_s=0.05),
    "packet, one flow": Case(ONE_FLOW, goal_s=0.4),
    "catalog show": Case(railyard("catalog", "show", "h100-sxm"), goal_s=0.4),
    "run first.yaml": Case(run("examples/first.yaml"), goal_s=2.0),
    "make run": Case(run("examples/llama3-70b-1024-h100.yaml"), None, goal_s=5.0),
    "plan": Case(railyard("plan", "examples/plan.yaml", "--quiet", "--out", "{out}"), None, goal_s=120.0),
    "405B analytic, 8,192": Case(step_405b(8192), None, goal_s=10.0),
    "auto, 8,192": Case(auto(8192), None, goal_s=10.0, goal_gb=1.0),
    "check, 8,192, UEC": Case(checks("uec"), None, goal_s=20.0),
    "check, 8,192, RoCE": Case(checks("roce"), None, goal_s=20.0),
    "check, RoCE, layout given": Case(checks("roce", *FIXED), checks("roce", *FIXED, gpus=256), goal_s=20.0),
    # Flow and closed form
    "405B, 16,384": Case(file("engine/full_step", "16384"), file("engine/full_step", "128"), 2.0),
    "405B, 16,384, UEC": Case(
        file("engine/full_step", "16384", "--fabric", "uec"), file("engine/full_step", "512", "--fabric", "uec"), 2.0
    ),
    "405B, 131,072, UEC": Case(file("engine/full_step", "131072", "--fabric", "uec"), None, 30.0, 4.0),
    "405B, 102,400": Case(file("engine/full_step", "102400"), None, 30.0, 4.0),
    "clusters and routes": Case(file("cluster"), file("cluster", "64", "--flows", "1000")),
    "hashed all-to-all": Case(file("cluster", "--all-to-all", "1024"), file("cluster", "--all-to-all", "64"), 1.0),
    "closed form of designs": Case(
        file("analytic"), file("analytic", f"{TRAINING}/runs_single_node.csv", "--designs", "80", "--ranks", "64")
    ),
    "flow against analytic": Case(file("agreement"), file("agreement", "hashed, 1:1", "--accelerators", "16")),
    "flow against closed form": Case(file("designs"), file("designs", "the same, shuffled")),
    # Packets
    "permutation-128-nscc": Case(file("packet", "--one", "permutation-128-nscc")),
    "permutation-1024-nscc": Case(file("packet", "--one", "permutation-1024-nscc"), None),
    "permutation-8192": Case(file("packet", "--one", "permutation-8192-leaf-spine"), None),
    "permutation-1024-roce": Case(file("packet", "--one", "permutation-1024-roce"), None),
    "permutation-128-dcqcn": Case(file("packet", "--one", "permutation-128-dcqcn")),
    "packets against htsim": Case(file("packet"), file("packet", "incast-32")),
    "packets on two threads": Case(file("packet", "--threads", "2"), file("packet", "incast-32", "--threads", "2")),
    "congestion controls": Case(file("packet_controls"), file("packet_controls", "16"), needs="numba"),
    "all-reduce in packets": Case(run("examples/packet/all-reduce.yaml"), None),
    "a step in packets, 1,024": Case(run("examples/packet/llama3-70b-1024-rails.yaml"), None, 10.0),
    "with and without skipping": Case(
        file("skipping"), file("skipping", "--steps", "2", "--hops", "0.1", "1", "--seed", "2")
    ),
    # Services, and plans
    "10 M requests": Case(file("serving", "--one", TRACE, "10000000", "64"), None, 10.0),
    "requests": Case(file("serving"), file("serving", "--most", "10000")),
    "designs of services": Case(file("service_plans"), file("service_plans", "--spaces", "1")),
    "plans against flow": Case(
        file("plans"), file("plans", "--designs", "1", "--spaces", "0", "--closed", "1", "--ranks", "64")
    ),
    "search of large spaces": Case(file("search"), file("search", "--seeds", "1", "--spaces", "1", "--values", "2")),
    "search of settings": Case(file("tune_search"), file("tune_search", "--seeds", "1", "--scenario", "smallest")),
    "months of jobs": Case(file("operate"), file("operate", "--nodes", "256")),
    "synthesis": Case(
        file("synthesis"),
        file("synthesis", "--ranks", "64", "--network", "clos", "--collective", "all-gather"),
    ),
    "traces read": Case(file("observe", "{out}"), file("observe", "{out}", "--megabytes", "1", "--ranks", "2")),
    # The page, and several machines
    "page": Case(file("page"), file("page", "--slices", "25600", "--accelerators", "256")),
    "status": Case(file("status"), file("status", "--seconds", "1"), needs="wrk"),
    "Ray": Case(file("distributed"), file("distributed", "--nodes", "2", "--points", "2"), needs="ray"),
}


@dataclass(frozen=True)
class Used:
    """What one run took: user and system seconds, and peak memory of the largest process."""

    cpu_s: float
    peak_gb: float
    wrote: str


def used(checkout: Path, words: tuple[str, ...]) -> Used:
    """Runs a command once.

    Raises:
        RuntimeError: It failed; with what it wrote.
    """
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as output:
        python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
        command = [python, *(word.format(out=out) if word == "{out}" else word for word in words)]
        process = subprocess.Popen(command, cwd=checkout, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        wrote = output.read().decode(errors="replace")
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{wrote[-2000:]}")
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9, wrote)


def compared(old: Path, words: tuple[str, ...], pairs: int) -> tuple[list[Used], list[Used]]:
    """Runs of another checkout and of this one, in turn."""
    found: dict[Path, list[Used]] = {old: [], ROOT: []}
    for turn in range(pairs):
        for checkout in (old, ROOT) if turn % 2 == 0 else (ROOT, old):
            found[checkout].append(used(checkout, words))
    return found[old], found[ROOT]


def row(case: Case, given: argparse.Namespace) -> tuple[str, bool]:
    """A line of the table without its name, and whether the case is as it should be.

    Raises:
        RuntimeError: A run failed.
    """
    words = (case.small or case.words) if given.small else case.words
    if given.old is None:
        new = used(ROOT, words)
        late = (case.goal_s or math.inf) < new.cpu_s or (case.goal_gb or math.inf) < new.peak_gb
        goal = "" if given.small or not case.goal_s else f"   goal {case.goal_s:g} s" + " MISSED" * late
        text = f"{new.cpu_s:10.2f} {new.peak_gb:8.2f}{goal}"
        return text + (f"\n{new.wrote}" if given.verbose else ""), given.small or not late
    before, now = compared(given.old.resolve(), words, given.pairs)
    ratio = statistics.median(one.cpu_s / other.cpu_s for one, other in zip(now, before, strict=True))
    least = [min(one.cpu_s for one in column) for column in (before, now)]
    middle = [statistics.median(one.cpu_s for one in column) for column in (before, now)]
    peaks = [max(one.peak_gb for one in column) for column in (before, now)]
    slower = min(ratio, least[1] / least[0]) > LIMIT and least[1] - least[0] > SEEN_S
    text = f"{middle[0]:10.2f} {middle[1]:8.2f} {ratio:6.2f} {peaks[0]:8.2f} {peaks[1]:8.2f}" + "  SLOWER" * slower
    return text, not slower


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--old", type=Path, metavar="CHECKOUT")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print what each case writes")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}: {', '.join(CASES)}")
    heads = "     CPU s       GB" if given.old is None else "     old s    new s  ratio   old GB   new GB"
    print(f"{'case':26}{heads}")
    wrong = []
    for name in given.names or CASES:
        case = CASES[name]
        if given.small and case.small is None:
            continue
        if case.missing:
            print(f"{name:26}SKIPPED: {case.needs} is not installed")
            continue
        try:
            text, sound = row(case, given)
        except RuntimeError as error:  # an old version may lack a benchmark: the others still count
            text, sound = f"FAILED: {error}", False
        print(f"{name:26}{text}", flush=True)
        wrong += [] if sound else [name]
    if wrong:
        print(f"failed, slower, or a goal missed: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
