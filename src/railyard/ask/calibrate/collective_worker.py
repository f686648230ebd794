"""One process of the measurement of collectives: `python -m railyard.ask.calibrate.collective_worker`."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.files import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

_REPEATS = 20


def main(arguments: list[str]) -> None:
    """Rank, number of ranks, library and sizes, as `run_collectives` gives them."""
    die_with_parent()
    rank, count, backend = int(arguments[0]), int(arguments[1]), arguments[2]
    torch: Any = import_module("torch")
    distributed = torch.distributed
    place = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    store = distributed.FileStore(os.environ["RAILYARD_STORE"], count)
    distributed.init_process_group(backend, store=store, rank=rank, world_size=count)
    rows = []
    for size in map(int, arguments[3].split(",")):
        full = torch.ones(size // 4 // count * count, device=place)
        part = torch.ones(full.numel() // count, device=place)
        for kind, call in _calls(distributed, full, part).items():
            rows.append((kind, size, _seconds(torch, distributed, call, gpu=backend == "nccl")))
    if rank == 0:
        Path(os.environ["RAILYARD_FOUND"]).write_text(json.dumps(rows), encoding="utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


def _calls(distributed: Any, full: Any, part: Any) -> dict[str, Callable[[], object]]:
    calls: dict[str, Callable[[], object]] = {"all-reduce": lambda: distributed.all_reduce(full)}
    calls["all-gather"] = lambda: distributed.all_gather_into_tensor(full, part)
    if distributed.get_backend() == "nccl":
        calls["reduce-scatter"] = lambda: distributed.reduce_scatter_tensor(part, full)
    return calls


def _seconds(torch: Any, distributed: Any, call: Callable[[], object], *, gpu: bool) -> float:
    """Median of single calls, each begun together."""
    samples = []
    for _ in range(_REPEATS):
        distributed.barrier()
        if gpu:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        if gpu:
            torch.cuda.synchronize()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


if __name__ == "__main__":
    main(sys.argv[1:])
