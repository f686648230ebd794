"""Times the serving engine: requests of a real trace on many replicas, one core, Python included.

    python benchmarks/serving.py [TRACE.csv] [--most REQUESTS]

TRACE.csv is in the format of the Azure LLM inference trace; without it, the hour of coding requests in examples/serving
(CC-BY-4.0). It is repeated end to end and sped up to the same load of every replica. Counts above a million are
streamed in chunks. What others take for as many requests on as many replicas was measured on a machine of the same kind
(Vidur 7d47513, BLIS inference-sim f90a1e3; one core each).
"""

from __future__ import annotations

import argparse
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

TRACE = Path(__file__).parents[1] / "examples" / "serving" / "traces" / "AzureLLMInferenceTrace_code.csv"
CHUNK = 200_000
RATE = 4.0  # requests a second of one replica
PS_PER_US = 10**6
CASES = ((10_000, 4), (20_000, 8), (100_000, 64), (1_000_000, 64), (10_000_000, 64))
OTHERS = {(10_000, 4): "Vidur: 45 s", (20_000, 8): "BLIS: 147 s"}
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


def trace(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals in ps, input and output tokens."""
    with Path(path).open(encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    at = np.array([np.datetime64(line[0][:26]) for line in lines]).astype("datetime64[us]").astype(np.int64)
    lengths = np.array([[int(line[1]), max(1, int(line[2]))] for line in lines])
    return (at - at[0]) * PS_PER_US, lengths[:, 0], lengths[:, 1]


def requests(columns: tuple[np.ndarray, np.ndarray, np.ndarray], span: range, replicas: int) -> SimpleNamespace:
    """Rows of the trace repeated without end, at the load of so many replicas."""
    at, inputs, outputs = columns
    row = np.arange(span.start, span.stop)
    period = int(at[-1]) + 10**11
    faster = RATE * replicas * period / 1e12 / len(at)
    arrival = ((at[row % len(at)] + period * (row // len(at))) / faster).astype(np.int64)
    return SimpleNamespace(
        arrival_ps=arrival,
        input_tokens=inputs[row % len(at)].astype(np.int32),
        output_tokens=outputs[row % len(at)].astype(np.int32),
        block_ptr=np.zeros(0, np.int64),
        block_hash=np.zeros(0, np.uint64),
        block_tokens=0,
        session=np.zeros(0, np.int64),
    )


def chunks(columns: tuple[np.ndarray, np.ndarray, np.ndarray], count: int, replicas: int) -> Iterator[SimpleNamespace]:
    for begin in range(0, count, CHUNK):
        yield requests(columns, range(begin, min(begin + CHUNK, count)), replicas)


def measure(path: str, count: int, replicas: int) -> dict[str, float]:
    columns = trace(path)
    deployment = Deployment((Pool("h100", COST, replicas, kv_blocks=20_000),), Router("least-loaded"))
    begin = time.process_time()
    if count <= 10**6:
        run = simulate(requests(columns, range(count), replicas), deployment)
        done, iterations = int((run.column("status") == 0).sum()), int(run.table("replicas")["iterations"].sum())
    else:
        done = iterations = 0
        for part in stream(chunks(columns, count, replicas), deployment):
            if isinstance(part, Chunk):
                done += int((part.columns["status"] == 0).sum())
            else:
                iterations = int(part.table("replicas")["iterations"].sum())
    seconds = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"requests": count, "done": done, "iterations": iterations, "cpu_s": seconds, "memory_mb": memory}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--one":
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", default=str(TRACE))
    parser.add_argument("--most", type=int, default=10**9)
    given = parser.parse_args()
    print(f"{'requests':>10} {'replicas':>8} {'done':>10} {'iterations':>12} {'CPU s':>7} {'us/request':>10} {'MB':>5}")
    for count, replicas in (case for case in CASES if case[0] <= given.most):
        command = [sys.executable, __file__, "--one", given.trace, str(count), str(replicas)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        each = 1e6 * found["cpu_s"] / count
        line = f"{count:>10} {replicas:>8} {found['done']:>10} {found['iterations']:>12} {found['cpu_s']:>7.2f}"
        print(f"{line} {each:>10.2f} {found['memory_mb']:>5.0f}  {OTHERS.get((count, replicas), '')}".rstrip())


if __name__ == "__main__":
    main()
