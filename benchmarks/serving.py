"""Times the serving engine: requests of a trace on many replicas, one core, Python included.

    python benchmarks/serving.py [TRACE.csv [REQUESTS ...]]

TRACE.csv is in the format of the Azure LLM inference trace; without it, lengths of the same means are drawn. The trace
is repeated end to end and sped up until 64 replicas are busy. Counts above a million are streamed in chunks.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Chunk, Cost, Deployment, Pool, Router, simulate, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 200_000
SPEED_UP = 10.0
PS_PER_US = 10**6
COST = Cost(
    tokens=np.array([0, 1, 256, 8192]),
    compute_s=np.array([0.0, 0.006, 0.008, 0.2]),
    network_s=np.array([0.0, 2e-4, 1e-3, 0.02]),
    host_s=2e-4,
    host_per_seq_s=2e-6,
    attention_per_kv_token_s=4e-8,
    attention_per_sequence_s=1e-6,
    attention_floor_s=1e-5,
    attention_per_pair_s=3e-10,
)
DEPLOYMENT = Deployment((Pool("h100", COST, 64, kv_blocks=20_000),), Router("least-loaded"))


def trace(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals in ps, input and output tokens."""
    if not path:
        draw = np.random.Generator(np.random.Philox(1))
        gaps = draw.exponential(0.18e12, 19_366)
        return np.cumsum(gaps).astype(np.int64), draw.geometric(1 / 1155, 19_366), draw.geometric(1 / 211, 19_366)
    with Path(path).open(encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    at = np.array([np.datetime64(line[0][:26]) for line in lines]).astype("datetime64[us]").astype(np.int64)
    lengths = np.array([[int(line[1]), max(1, int(line[2]))] for line in lines])
    return (at - at[0]) * PS_PER_US, lengths[:, 0], lengths[:, 1]


def requests(columns: tuple[np.ndarray, np.ndarray, np.ndarray], begin: int, end: int) -> SimpleNamespace:
    """Rows begin..end of the trace repeated without end."""
    at, inputs, outputs = columns
    row = np.arange(begin, end)
    period = int(at[-1]) + 10**11
    arrival = ((at[row % len(at)] + period * (row // len(at))) / SPEED_UP).astype(np.int64)
    return SimpleNamespace(
        arrival_ps=arrival,
        input_tokens=inputs[row % len(at)].astype(np.int32),
        output_tokens=outputs[row % len(at)].astype(np.int32),
        block_ptr=np.zeros(0, np.int64),
        block_hash=np.zeros(0, np.uint64),
        block_tokens=0,
        session=np.zeros(0, np.int64),
    )


def chunks(columns: tuple[np.ndarray, np.ndarray, np.ndarray], count: int) -> Iterator[SimpleNamespace]:
    for begin in range(0, count, CHUNK):
        yield requests(columns, begin, min(begin + CHUNK, count))


def measure(path: str, count: int) -> dict[str, float]:
    columns = trace(path)
    begin = time.process_time()
    if count <= 10**6:
        run = simulate(requests(columns, 0, count), DEPLOYMENT)
        done, iterations = int((run.status == 0).sum()), int(run.replicas.iterations.sum())
    else:
        done = iterations = 0
        for part in stream(chunks(columns, count), DEPLOYMENT):
            if isinstance(part, Chunk):
                done += int((part.columns["status"] == 0).sum())
            else:
                iterations = int(part.replicas.iterations.sum())
    seconds = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"requests": count, "done": done, "iterations": iterations, "cpu_s": seconds, "memory_mb": memory}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--one":
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    path = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"{'requests':>10} {'done':>10} {'iterations':>12} {'CPU s':>8} {'us/request':>10} {'MB':>7}")
    for count in [int(one) for one in sys.argv[2:]] or [100_000, 1_000_000, 10_000_000]:
        command = [sys.executable, __file__, "--one", path, str(count)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        each = 1e6 * found["cpu_s"] / count
        print(
            f"{count:>10} {found['done']:>10} {found['iterations']:>12} {found['cpu_s']:>8.2f} {each:>10.2f}"
            f" {found['memory_mb']:>7.0f}"
        )


if __name__ == "__main__":
    main()
