"""How long each command takes to end after Ctrl-C or SIGTERM, and what it leaves.

tools/signals.py [WORD ...] [--moments 0.3,1,3]

Each command is started on a long job and gets a signal at each moment (seconds after its start). Prints a line each:
the seconds until it has ended, its exit code, and what is wrong: another code than 130 or 143 (0 where it was done by
then), processes or unfinished files that are left, stdout of `--json` that is cut off. WORDs choose commands.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
MARK = "RAILYARD_SIGNALS_TOOL"
LONG = "cluster.accelerators=16384"

COMMANDS = [
    f"run {EXAMPLES}/llama3-70b-1024-h100.yaml --json",
    f"run {EXAMPLES}/oversubscription.yaml --json",
    f"run {EXAMPLES}/moe-deepseek-v3.yaml --json",
    f"run {EXAMPLES}/jobs.yaml --json",
    f"run {EXAMPLES}/packet/all-to-all-1024.yaml --json",
    f"run {EXAMPLES}/serving/attention-and-ffn.yaml --json",
    f"run {EXAMPLES}/serving/stages.yaml --json",
    f"run {EXAMPLES}/edge/three-continents.yaml --json",
    f"run {EXAMPLES}/two-sites-diloco.yaml --json",
    f"run {EXAMPLES}/traces/htsim.yaml --json",
    f"operate {EXAMPLES}/operate/turnaround.yaml --json",
    f"operate {EXAMPLES}/operate/kueue.yaml --json",
    f"compare {EXAMPLES}/llama3-70b-1024-h100.yaml --vary fabric=roce,uec,infiniband --json",
    "packet --traffic flows.csv --fabric roce --set hosts=1024 --json",
    f"plan {EXAMPLES}/plan.yaml --json",
    f"plan growth {EXAMPLES}/plan/growth.yaml --json",
    f"plan worth {EXAMPLES}/plan.yaml --json",
    f"plan serving {EXAMPLES}/serving/plan.yaml --json",
    f"tune {EXAMPLES}/tune.yaml --json",
    f"synthesize --cluster {EXAMPLES}/llama3-70b-1024-h100.yaml --collective all-reduce --json",
    "synthesize --links links.csv --collective all-to-all --json",
    "trace requests.csv --json",
    "observe traces --json",
    "diagnose traces --json",
    f"explain {EXAMPLES}/llama3-70b-1024-h100.yaml --json",
    f"deploy {EXAMPLES}/llama3-70b-1024-h100.yaml --out deployed --set {LONG}",
    f"accept {EXAMPLES}/llama3-70b-1024-h100.yaml --out accepted --set {LONG}",
    f"bring-up {EXAMPLES}/bring-up.yaml --json",
    f"check {EXAMPLES}/checks.yaml --json",
    f"topology {EXAMPLES}/llama3-70b-1024-h100.yaml --as slurm-tree",
    "place jobs.csv --nodes nodes.txt --json",
    "calibrate device --device cpu --out device.toml",
    "ui folder --port 8791 --no-open",
    "ui folder --api-only --port 8792",
    "watch --prometheus http://127.0.0.1:9 --every 1",
    "validate",
]


def inputs(folder: Path) -> None:
    """Long inputs of commands that read files."""
    (folder / "folder").mkdir()
    hosts = range(1024)
    flows = (f"{one},{(one + far) % 1024},4000000\n" for far in range(1, 65) for one in hosts)
    (folder / "flows.csv").write_text("source,target,size_bytes\n" + "".join(flows), encoding="utf-8")
    links = (f"{a},{b},50,1\n" for a in range(24) for b in range(24) if a != b and (a + b) % 3)
    (folder / "links.csv").write_text("source,destination,gb_per_s,latency_us\n" + "".join(links), encoding="utf-8")
    rows = (f"{number / 10:.1f},1000,100\n" for number in range(2_000_000))
    (folder / "requests.csv").write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(rows), encoding="utf-8"
    )
    (folder / "nodes.txt").write_text("\n".join(f"n{number}" for number in range(4096)), encoding="utf-8")
    jobs = "".join(f"j{number},1\n" for number in range(4000))
    (folder / "jobs.csv").write_text(f"job,nodes\n{jobs}", encoding="utf-8")
    (folder / "traces").mkdir()
    for rank in range(16):
        events = [
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": at * 10, "dur": 5}
            for at in range(150_000)
        ]
        document = {"distributedInfo": {"rank": rank, "world_size": 16}, "traceEvents": events}
        (folder / "traces" / f"rank-{rank}.json").write_text(json.dumps(document), encoding="utf-8")


def left(mark: str) -> list[int]:
    """Processes that carry the mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            ended = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment and not ended:
            found.append(int(process.name))
    return found


def once(command: str, moment: float, number: int, folder: Path) -> tuple[float, int, list[str]]:
    """Seconds to the end, exit code and what is wrong."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    words = [sys.executable, "-m", "railyard", *command.split(), *([] if " --out" in command else outs(command))]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err, env={**os.environ, MARK: mark})
        time.sleep(moment)
        begin, over = time.monotonic(), process.poll() is not None
        process.send_signal(number)
        try:
            code = process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    took = 0.0 if over else time.monotonic() - begin
    return took, code, wrong(command, code, over, mark, folder)


def outs(command: str) -> list[str]:
    """Where runs are put, for commands that put them anywhere."""
    first = ("run ", "compare ", "operate ", f"plan {EXAMPLES}")
    return ["--out", "runs"] if command.startswith(first) else []


def wrong(command: str, code: int, over: bool, mark: str, folder: Path) -> list[str]:
    """What should not be."""
    said = (folder / "stderr").read_text(errors="replace")
    found = [] if code in (0, 1, 130, 143, -2) else [f"exit code {code}: {said.strip().splitlines()[-1:]}"]
    if over:
        found.append("over before the signal")
    if "Traceback" in said:
        found.append("traceback")
    time.sleep(0.2)
    if orphans := left(mark):
        found.append(f"{len(orphans)} processes left")
        for one in orphans:
            os.kill(one, signal.SIGKILL)
    for place in folder.rglob("*"):
        if place.name.endswith(".tmp") or (place.parent.name == ".unfinished" and place.name.endswith(f"-{mark}")):
            found.append(f"unfinished {place.name}")
            place.unlink()
    out = (folder / "stdout").read_bytes()
    if out and "--json" in command:
        try:
            json.loads(out)
            found.append(f"answer of {len(out)} bytes")
        except ValueError:
            found.append("stdout is no JSON")
    return found


def main() -> None:
    """Every command at every moment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--moments", default="0.3,1,3")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    inputs(folder)
    worst = 0.0
    for command in COMMANDS:
        if given.words and not any(word in command for word in given.words):
            continue
        for at, moment in enumerate(given.moments.split(",")):
            number = (signal.SIGTERM, signal.SIGINT)[at % 2]
            took, code, found = once(command, float(moment), number, folder)
            worst = max(worst, took)
            words = command.replace(f"{EXAMPLES}/", "")
            print(f"{took:5.2f} s  {code:4d}  at {moment:>4} s  {words}  {'; '.join(found)}", flush=True)
    shutil.rmtree(folder)
    print(f"{worst:5.2f} s  the longest")


if __name__ == "__main__":
    main()
