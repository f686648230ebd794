#!/usr/bin/env python3
"""How fast traces are read and diagnosed: one large file, and a folder of many ranks; both are written by this program.

    .venv/bin/python benchmarks/observe.py FOLDER --megabytes 1800 --ranks 256

Events have the mix of a PyTorch trace of training: host operators, launches, kernels, and 1 % communications.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

HOST = {"cat": "cpu_op", "name": "aten::add_", "args": {"Input Dims": [[1024, 1024], [1024, 1024], []], "Ev Idx": 1}}
LAUNCH = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"cbid": 211, "correlation": 1}}
KERNEL = {
    "cat": "kernel",
    "name": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
    "args": {"stream": 7, "grid": [1024, 1, 1], "block": [128, 1, 1], "registers per thread": 32},
}
MIX = ((0.55, HOST), (0.27, LAUNCH), (0.17, KERNEL))


def write(path: Path, size: int, rank: int, world: int) -> None:
    """A trace of so many bytes."""
    dice = random.Random(rank)
    head = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": world}}
    communication = {
        "cat": "kernel",
        "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "args": {"stream": 20, "Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "BFloat16",
                 "Group size": world, "Process Group Name": "0"},
    }  # fmt: skip
    at, written, number = 0.0, 0, 0
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        while written < size:
            block = []
            for _ in range(500):
                at += 10 * dice.random()
                drawn, event = dice.random(), communication
                for share, kind in MIX:
                    drawn -= share
                    if drawn < 0:
                        event = kind
                        break
                number += event is communication
                args = {**event["args"], "Seq": number} if event is communication else event["args"]
                block.append(
                    json.dumps({"ph": "X", **event, "ts": round(at, 3), "dur": 10.5, "pid": 0, "tid": 7, "args": args})
                )
            text = ("" if written == 0 else ",\n") + ",\n".join(block)
            file.write(text)
            written += len(text)
        file.write("\n]}\n")


def timed(path: Path, what: str) -> None:
    """Runs a command on a path and prints its time on the clock, of processors, and its memory."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "railyard", what, str(path), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    words = f"{time.perf_counter() - begin:.1f} s, {cpu_s:.1f} s of CPU, at most {used.ru_maxrss / 1e6:.2f} GB"
    print(f"{what} {path.name}: {words} in one process of any so far", flush=True)


def main() -> None:
    """Writes what is missing, then measures."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--megabytes", type=int, default=1800)
    words.add_argument("--ranks", type=int, default=256)
    asked = words.parse_args()
    one, many = asked.folder / "one.json", asked.folder / "many"
    many.mkdir(parents=True, exist_ok=True)
    if not one.is_file():
        write(one, asked.megabytes * 1_000_000, 0, asked.ranks)
    for rank in range(asked.ranks):
        if not (many / f"rank-{rank}.json").is_file():
            write(many / f"rank-{rank}.json", asked.megabytes * 1_000_000 // asked.ranks, rank, asked.ranks)
    timed(one, "observe")
    timed(many, "observe")
    timed(many, "diagnose")


if __name__ == "__main__":
    main()
