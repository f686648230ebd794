"""What commands leave that are killed (SIGKILL) at random moments, and whether the same command then gives the same.

tools/kills.py [WORD ...] [--moments 50] [--seed 26]

Each command runs to its end once, for reference and for its length. Then it is started again and again in another
folder, where it finds what the runs before have left, and killed at random moments of that length. After each kill each
file under a final name has to be one of the reference, with its bytes, and every folder of a run has to be whole; no
process is left. At last the command runs to its end: all its files are those of the reference, and nothing unfinished
is left. WORDs choose commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from signals import MARK, left

CLUSTER = {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}}
TRAINING = {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2, "pp": 1}}
ONE = {"name": "one", "cluster": CLUSTER, "workload": {"training": TRAINING}, "engine": "flow"}
DRAWN = {"synthetic": {"count": 3000, "load": 0.8, "sizes": {"8": 1}}}

SCENARIOS = {
    "one.yaml": ONE,
    "sweep.yaml": {
        **{**ONE, "name": "sweep"},
        "compare": {"vary": {"fabric": ["roce", "uec", "infiniband"], "global_batch": [16, 32]}},
    },
    "plan.yaml": {
        **{"name": "plan", "cluster": {**CLUSTER, "accelerators": 64}},
        "workload": {"training": {**TRAINING, "global_batch": 64, "tokens": "1 T"}},
        "plan": {
            "space": {"fabric": ["roce", "uec"], "oversubscription": ["1:1", "2:1", "4:1"]},
            "effort": {"flow": 4, "draws": 100},
        },
    },
    "operate.yaml": {
        **{"name": "operate", "cluster": {**CLUSTER, "accelerators": 64}},
        "workload": {"operate": {"jobs": DRAWN, "save_every": 50}},
    },
    "tune.yaml": {
        **{**ONE, "name": "tune"},
        "tune": {"space": {"qps": [4, 8]}, "seeds": 1, "steps": 4, "unseen_seeds": 2, "unseen_jobs": 0},
    },
}

COMMANDS = {
    "run": "run one.yaml --out runs",
    "sweep, goes on": "run sweep.yaml --out runs",
    "plan, goes on": "plan plan.yaml --out runs",
    "operate, goes on": "operate operate.yaml --out runs",
    "tune": "tune tune.yaml --out runs --env nccl.sh --even-unsure --force",
    "synthesize": "synthesize --links links.csv --collective all-to-all --size 64MB --out s.csv --msccl s.xml --force",
    "deploy": "deploy one.yaml --out deployed",
}

MAIN = """
import datetime
from railyard import cli
from railyard.work.study import provenance

class Dated(datetime.datetime):
    now = classmethod(lambda cls, tz: cls(2026, 1, 1, tzinfo=tz))

provenance.datetime = Dated
cli.main()
"""
"""All runs are of one date, so that their files have the same bytes."""


def furnished(folder: Path) -> Path:
    """A folder with the files that commands read."""
    folder.mkdir()
    for name, scenario in SCENARIOS.items():
        (folder / name).write_text(json.dumps(scenario), encoding="utf-8")  # JSON is YAML
    links = (f"{a},{b},50,1\n" for a in range(12) for b in range(12) if a != b and (a + b) % 3)
    (folder / "links.csv").write_text("source,destination,gb_per_s,latency_us\n" + "".join(links), encoding="utf-8")
    return folder


def files(folder: Path, given: set[str]) -> dict[str, str]:
    """Digests of what stands under final names, by name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.as_posix() not in given and not any(part.startswith(".") for part in name.parts):
            found[name.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def hidden(folder: Path) -> set[str]:
    """Files and folders that are not for users: a plan keeps what it knows, nothing else stays."""
    names = (path.relative_to(folder) for path in folder.rglob("*"))
    found = (name.as_posix() for name in names if any(part.startswith(".") for part in name.parts))
    return {re.sub(r"-[0-9a-f]{8}\.jsonl$", ".jsonl", name) for name in found}  # named after the scenario's folder too


def started(words: str, folder: Path, mark: str) -> subprocess.Popen[bytes]:
    """The command, at work."""
    environment = {**os.environ, MARK: mark}
    command = [sys.executable, "-c", MAIN, *words.split(), "--quiet"]
    command = command[:-1] if words.startswith("deploy") else command
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def broken(folder: Path, given: set[str], whole: dict[str, str]) -> list[str]:
    """What is there under a final name and is not of the reference; folders of which a part is there."""
    found = files(folder, given)
    wrong = [f"{name} is not whole" for name, digest in found.items() if whole.get(name) != digest]
    for top in {"/".join(name.split("/")[:2]) for name in whole if name.startswith("runs/")} | {"deployed"}:
        due = {name for name in whole if name.startswith(f"{top}/")}
        there = due & found.keys()
        if there and there != due:
            wrong.append(f"{top} has {len(there)} of {len(due)} files")
    return wrong


def killed(words: str, moments: int, draw: random.Random, folder: Path) -> tuple[int, float, list[str]]:
    """How often the command was killed before its end, its length, and what was wrong."""
    reference, place = furnished(folder / "reference"), furnished(folder / "killed")
    given = {path.name for path in reference.iterdir()}
    begin = time.monotonic()
    code = started(words, reference, "reference").wait()
    length, whole = time.monotonic() - begin, files(reference, given)
    wrong = [] if code == 0 and whole else [f"the reference ended with {code}, {len(whole)} files"]
    count = 0
    for moment in range(moments):
        mark = f"kill-{os.getpid()}-{moment}"
        process = started(words, place, mark)
        time.sleep(draw.uniform(0.1, 1.0) * length)
        count += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        wrong += [f"kill {moment}: {one}" for one in broken(place, given, whole)]
        begin = time.monotonic()
        while left(mark) and time.monotonic() - begin < 10:
            time.sleep(0.1)
        wrong += [f"kill {moment}: process {one} is left" for one in left(mark)]
    code = started(words, place, "last").wait()
    if code or files(place, given) != whole:
        wrong.append(f"the last run ended with {code}; its files differ from the reference")
    wrong += [f"{name} is left" for name in sorted(hidden(place) - hidden(reference))]
    return count, length, wrong


def main() -> None:
    """Every command that writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=26)
    asked = parser.parse_args()
    for name, words in COMMANDS.items():
        if asked.words and not any(word in name for word in asked.words):
            continue
        folder = Path(tempfile.mkdtemp())
        count, length, wrong = killed(words, asked.moments, random.Random(asked.seed), folder)
        shutil.rmtree(folder)
        print(
            f"{name}: {count} of {asked.moments} killed before the end ({length:.1f} s); wrong: {len(wrong)}",
            flush=True,
        )
        print("".join(f"  {one}\n" for one in wrong[:20]), end="", flush=True)


if __name__ == "__main__":
    main()
