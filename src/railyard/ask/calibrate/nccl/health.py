"""Which logs say something about a healthy machine, and who ran them: decided by their headers, never by the error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.ask.calibrate.nccl.log import NcclLog

_WORDS = (
    (r"\buntuned\b|\bno tuning\b|\bdefault settings\b", "untuned, as its header says"),
    (
        r"\bsick\b|\bpatholog|\banomal|\bmisconfigured\b|\bbadly configured\b|\bdegraded\b|\bbroken\b",
        "sick or anomalous",
    ),
    (r"not a validation target|do not use\b", "its header says that it is no target"),
    (r"\bvery noisy\b", "very noisy, as its header says"),
    (r"hardware inferred|\bNICs? (?:layout )?(?:is )?(?:not stated|unknown)", "its header does not say which hardware"),
    (r"\b(?:one|single|1) NIC (?:only|of|per (?:node|server|host))|only one NIC", "one NIC of a server's several"),
    (r"IP over InfiniBand|\bIPoIB\b|NCCL.IB.DISABLE|\bTCP sockets\b|socket transport", "sockets instead of RDMA"),
    (r"without GPUDirect|GDR (?:off|disabled)|no GDR", "without GPUDirect"),
)
"""Words of a header, and what they say."""

_LISTED = re.compile(
    r"(?:anomalous|untuned|badly configured)[^:.\n]{0,40}:\s*((?:\d{1,4}(?:,\s*| and )?)+)", re.IGNORECASE
)
_NUMBER = re.compile(r"^(\d{1,4})[_\-. ]")

_OPERATORS = (
    ("AWS", r"\baws\b|amazon|\beks\b|\befa\b|\bp[456](?:de|en|e|d)?\b|p6-b\d"),
    ("Google", r"\bgcp\b|google|\bgke\b"),
    ("Azure", r"azure|\baks\b|superbench"),
    ("OCI", r"\boci\b|oracle"),
    ("CoreWeave", r"coreweave"),
    ("Nebius", r"nebius"),
    ("Lambda", r"\blambda\b"),
    ("Vultr", r"vultr"),
    ("Meta", r"\bmeta\b|torchcomms"),
    ("AMD", r"\bamd\b|aliyun"),
    ("Supermicro", r"supermicro"),
    ("ml-engineering", r"ml-engineering"),
    ("NVIDIA", r"nvidia|\bdgx"),
)
"""Whose machines they are, the first that is named."""


def odd_by_header(log: NcclLog) -> str:
    """Why a log says little about a healthy machine; empty when nothing in its header says so."""
    about = "; ".join(log.headers.get(key, "") for key in ("name", "config", "hardware", "note", "warning"))
    about = about.replace("_", " ")
    return next((reason for words, reason in _WORDS if re.search(words, about, re.IGNORECASE)), "")


def chosen_by_plugin(log: NcclLog) -> bool:
    """Whether a header says that a tuner plugin chose the algorithms in place of the library (aws-ofi-nccl does)."""
    return "tuner" in log.headers.get("config", "").lower()


def listed_as_odd(folder: Path) -> frozenset[str]:
    """Numbers of logs that the README beside them lists as anomalous or untuned (`Anomalous or untuned: 13, 42.`)."""
    numbers: set[str] = set()
    for name in ("README.md", "README.txt", "README"):
        path = folder / name
        if not path.is_file():
            continue
        for found in _LISTED.finditer(read_text(path, errors="replace")):
            numbers.update(number.lstrip("0") for number in re.findall(r"\d+", found.group(1)))
    return frozenset(numbers)


def number_of(log: NcclLog) -> str:
    """Number with which a log's file name begins; empty without one."""
    found = _NUMBER.match(log.file)
    return found.group(1).lstrip("0") if found else ""


def operator_of(log: NcclLog) -> str:
    """Whose machine a log shows."""
    keys = ("name", "config", "hardware", "source")
    about = "; ".join(log.headers.get(key, "") for key in keys).replace("_", " ")
    return next((name for name, words in _OPERATORS if re.search(words, about, re.IGNORECASE)), "unknown")
