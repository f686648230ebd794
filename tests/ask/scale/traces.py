"""Kineto traces by hand: kernels in microseconds, on streams, in the order of their launches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.scenario.load import Variant
from railyard.work.training.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.graph import Record
    from railyard.work.training.prepare import Prepared

CLUSTER = "cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}\n"
KINDS = {"allreduce": "AllReduce", "_allgather_base": "AllGather", "_reduce_scatter_base": "ReduceScatter",
         "all_to_allv": "SendRecv", "send": "SendRecv", "recv": "SendRecv"}  # fmt: skip


def kernel(name: str, start: float, duration: float, stream: int = 7, **args: Any) -> dict[str, Any]:
    return {"cat": "kernel", "name": name, "ts": start, "dur": duration, "args": {"stream": stream, **args}}


def call(kind: str, start: float, duration: float, ranks: Sequence[int], size: int, **more: Any) -> dict[str, Any]:
    """A collective of bytes on stream 20; `group` and `purpose` name its group."""
    args = {"Collective name": kind, "In msg nelems": size, "Out msg nelems": size, "dtype": "Byte",
            "Process Group Name": more.get("group", "0"), "Process Group Ranks": str(list(ranks)),
            "Group size": len(ranks)}  # fmt: skip
    args |= {"Process Group Description": more["purpose"]} if "purpose" in more else {}
    return kernel(f"ncclDevKernel_{KINDS[kind]}", start, duration, more.get("stream", 20), **args)


def message(start: float, duration: float, peer: int, size: int, *, sends: bool, stream: int = 30) -> dict[str, Any]:
    args = {"Collective name": "send" if sends else "recv", "In msg nelems": size, "Out msg nelems": size,
            "dtype": "Byte", "Process Group Name": "pp", "Dst Rank" if sends else "Src Rank": peer}  # fmt: skip
    return kernel("ncclDevKernel_SendRecv", start, duration, stream, **args)


def wait(stream: int, other: int, start: float = 0.0) -> dict[str, Any]:
    """A stream waits for what another one was given so far."""
    return {"cat": "cuda_sync", "name": "Stream Wait Event", "ts": start, "dur": 0,
            "args": {"stream": stream, "wait_on_stream": other}}  # fmt: skip


def memory(reserved: int) -> dict[str, Any]:
    """What PyTorch had reserved on the accelerator."""
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1, "s": "t",
            "args": {"Total Reserved": reserved, "Device Type": 1, "Device Id": 0}}  # fmt: skip


def devices(name: str, memory_bytes: int, count: int = 8) -> dict[str, Any]:
    """The accelerators of a host, as the profiler lists them."""
    return {"deviceProperties": [{"id": at, "name": name, "totalGlobalMem": memory_bytes} for at in range(count)]}


def shape(name: str, *dims: Any, times: int = 1) -> list[dict[str, Any]]:
    """Calls on the host with shapes of their operands."""
    return [{"ph": "X", "cat": "cpu_op", "name": name, "ts": 1, "dur": 1, "args": {"Input Dims": list(dims)}}] * times


def write(path: Path, rank: int, world: int, events: Sequence[dict[str, Any]], *, period: float, **more: Any) -> Path:
    """A trace of three equal steps; launch numbers follow the order of the events, and `more` stands before them."""
    rows: list[dict[str, Any]] = []
    launch = 0
    for step in range(3):
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step + 5}", "dur": period, "args": {}}
        rows.append({"ph": "X", "pid": 1, "tid": 1, "ts": step * period, **mark})
        for one in events:
            launch += 1
            args = {"device": 0, "correlation": launch, **one["args"]}
            if one["cat"] == "cuda_sync":
                args["wait_on_cuda_event_record_corr_id"] = launch
            rows.append({"ph": "X", "pid": 0, "tid": 0, **one, "ts": one["ts"] + step * period, "args": args})
    about = {"rank": rank, "world_size": world, "backend": "nccl"}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": about, **more, "traceEvents": rows}))
    return path


def job_of(ranks: int, model: str, parallelism: dict[str, Any], batch: int, server: str = "hgx-h100") -> Prepared:
    """A job on so many accelerators, with so many sequences of each replica in a step."""
    layout = {"micro_batch": 1, "recompute": "full", "bucket": "160 MB", **parallelism}
    layout["dp"] = ranks // (layout.get("tp", 1) * layout.get("pp", 1))
    training = {"model": model, "tokens": "1 T", "global_batch": batch * layout["dp"], "sequence": 4096,
                "precision": "bf16", "parallelism": layout}  # fmt: skip
    back_end = {"topology": "rail-optimized", "fabric": "roce"}
    cluster = {"accelerators": ranks, "server": server, "back_end": back_end}
    return prepare([Variant("one", {}, load.from_values({"cluster": cluster, "workload": {"training": training}}))])[0]


_KEPT: dict[str, Record] = {}


def simulated(*job: Any) -> Record:
    """A step of `job_of`, simulated once."""
    if str(job) not in _KEPT:
        one = job_of(*job)
        jobs = [Job(one.graphs.of(one.training, one.cluster))]
        _KEPT[str(job)] = one.engine.simulate(jobs, one.cluster, seed=0, policy=one.policy)
    return _KEPT[str(job)]
