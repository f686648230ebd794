"""`sacct`: what Slurm's accounting prints with `sacct -X -P --format=...`."""

from __future__ import annotations

import re

from railyard.kit.errors import InputError
from railyard.work.operate.trace import Row, TraceFormat, formats, integer, moment
from railyard.work.operate.tree import UNNAMED

_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_GPUS = re.compile(r"gres/gpu(?::[^=,]+)?=(\d+)")


def span(text: str) -> float:
    """Seconds of `[days-][hours:]minutes:seconds`.

    Raises:
        InputError: It is none.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise InputError("expected a time as Slurm writes it", found=text, allowed="2-03:04:05")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _limit(text: str) -> float | None:
    return None if text in {"", "UNLIMITED", "Partition_Limit"} else span(text)


def _row(text: dict[str, str]) -> Row | None:
    if "." in text["JobID"]:  # a step of a job
        return None
    found = _GPUS.findall(text.get("ReqTRES") or text.get("AllocTRES") or "")
    if not found:
        return None
    elapsed = span(text["Elapsed"])
    if elapsed == 0:
        return None
    return Row(
        text["JobID"],
        moment(text, "Submit"),
        elapsed,
        int(found[0]),
        text.get("Account") or UNNAMED,
        limit_s=_limit(text.get("Timelimit") or ""),
        nodes=integer(text, "NNodes"),
        priority=integer(text, "Priority") if text.get("Priority") else 0,
    )


SACCT = formats.add(
    "sacct",
    TraceFormat(
        "sacct",
        "Slurm: `sacct -X -P --format=JobID,Submit,Elapsed,Timelimit,NNodes,ReqTRES,Account,Priority`.",
        ("JobID", "Submit", "Elapsed", "NNodes"),
        _row,
        "https://slurm.schedmd.com/sacct.html",
    ),
)
