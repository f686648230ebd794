"""Formats of job traces; creating a record registers it."""

from __future__ import annotations

import re

from railyard.kit.errors import InputError
from railyard.work.operate.free import PlacementAsk
from railyard.work.operate.trace import JobTraceFormat, TraceJob, integer, moment, number, trace_formats
from railyard.work.operate.tree import UNNAMED


def _alibaba_row(text: dict[str, str]) -> TraceJob | None:
    if not text["deletion_time"] or integer(text, "num_gpu") == 0:
        return None
    begin, end = number(text, "creation_time"), number(text, "deletion_time")
    if end < begin:
        raise InputError("a pod is deleted before it is made", key="deletion_time", found=end, allowed=f"{begin:g} on")
    return TraceJob(text["name"], begin, end - begin, integer(text, "num_gpu"), text["qos"] or UNNAMED)


trace_formats.enter(
    JobTraceFormat(
        "alibaba",
        "Alibaba cluster-trace-gpu-v2023: pods with creation and deletion times in seconds.",
        ("name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time"),
        _alibaba_row,
        "https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023",
    ),
)


def _philly_row(text: dict[str, str]) -> TraceJob:
    accelerators = integer(text, "num_gpus")
    return TraceJob("", moment(text, "timestamp"), number(text, "duration"), accelerators, text["cluster"])


trace_formats.enter(
    JobTraceFormat(
        "philly",
        "Microsoft Philly, as processed by Sia: timestamp, duration in seconds, GPUs, virtual cluster.",
        ("timestamp", "duration", "num_gpus", "cluster"),
        _philly_row,
        "https://github.com/msr-fiddle/philly-traces (CC-BY-4.0), https://github.com/siasosp23/artifacts",
    ),
)


_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_GPUS = re.compile(r"gres/gpu(?::[^=,]+)?=(\d+)")


def span(text: str) -> float:
    """Seconds of `[days-][hours:]minutes:seconds`.

    Raises:
        InputError: The text is not a duration.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise InputError("expected a time as Slurm writes it", found=text, allowed="2-03:04:05")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _limit(text: str) -> float | None:
    return None if text in {"", "UNLIMITED", "Partition_Limit"} else span(text)


def _sacct_row(text: dict[str, str]) -> TraceJob | None:
    if "." in text["JobID"]:  # a step of a job
        return None
    found = _GPUS.findall(text.get("ReqTRES") or text.get("AllocTRES") or "")
    if not found:
        return None
    elapsed = span(text["Elapsed"])
    if elapsed == 0:
        return None
    return TraceJob(
        text["JobID"],
        moment(text, "Submit"),
        elapsed,
        int(found[0]),
        text.get("Account") or UNNAMED,
        limit_s=_limit(text.get("Timelimit") or ""),
        nodes=integer(text, "NNodes"),
        priority=integer(text, "Priority", 0),
    )


trace_formats.enter(
    JobTraceFormat(
        "sacct",
        "Slurm: `sacct -X -P --format=JobID,Submit,Elapsed,Timelimit,NNodes,ReqTRES,Account,Priority`.",
        ("JobID", "Submit", "Elapsed", "NNodes"),
        _sacct_row,
        "https://slurm.schedmd.com/sacct.html",
    ),
)


def _table_row(text: dict[str, str]) -> TraceJob:
    return TraceJob(
        text.get("job") or "",
        number(text, "submit_s"),
        number(text, "duration_s"),
        integer(text, "accelerators"),
        text.get("tenant") or UNNAMED,
        integer(text, "priority", 0),
        number(text, "limit_s") if text.get("limit_s") else None,
        integer(text, "nodes", 0),
        integer(text, "least_accelerators", 0),
        tuple((text.get("after") or "").split()),
        text.get("class") or "",
        PlacementAsk(
            within=text.get("within") or "",
            prefers=text.get("prefers") or "",
            segment=integer(text, "segment", 0),
            segment_within=text.get("segment_within") or "",
            switches=integer(text, "switches", 0),
        ),
        integer(text, "replica_accelerators", 0),
        number(text, "load") if text.get("load") else 0.0,
    )


trace_formats.enter(
    JobTraceFormat(
        "csv",
        "submit_s, duration_s, accelerators; job, tenant, priority, limit_s, nodes, least_accelerators, after, class,"
        " within, prefers, segment, segment_within, switches, replica_accelerators, load.",
        ("submit_s", "duration_s", "accelerators"),
        _table_row,
        "docs/how-to/operate.md",
    ),
)


def _tiresias_row(text: dict[str, str]) -> TraceJob:
    return TraceJob(
        text["job_id"],
        number(text, "submit_time"),
        number(text, "duration"),
        integer(text, "num_gpu"),
        work=text["model_name"] or "",
    )


trace_formats.enter(
    JobTraceFormat(
        "tiresias",
        "Tiresias' simulator: job_id, num_gpu, submit_time, duration, model_name.",
        ("job_id", "num_gpu", "submit_time", "duration", "model_name"),
        _tiresias_row,
        "https://github.com/SymbioticLab/Tiresias (Apache-2.0)",
    ),
)
