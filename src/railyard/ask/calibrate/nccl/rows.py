"""Every row of a log and what is predicted for it: the machine from its header, the launch, the library's choice."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.nccl import log as log_tables
from railyard.ask.calibrate.nccl.constants import CONSTANTS, LaunchConstants
from railyard.ask.calibrate.nccl.log import LogTable, Measurement, NcclLog, bus_factor, collective_of, ranks_of
from railyard.ask.calibrate.nccl.machine import PUT_SMALL_BYTES, LogMachine, setting, stated_version
from railyard.collective import lower_collectives, lower_transfers
from railyard.collective.machine import Shape
from railyard.collective.policy import KINDS
from railyard.collective.ring import neighbours
from railyard.graph import Communicators
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.ask.calibrate.nccl.log import NcclLog
    from railyard.catalog import Catalog
    from railyard.collective import CollectivePolicy


_WORDS = (
    (r"\buntuned\b|\bno tuning\b|\bdefault settings\b", "untuned, as its header says"),
    (
        r"\bsick\b|\bpatholog|\banomal|\bmisconfigured\b|\bbadly configured\b|\bdegraded\b|\bbroken\b",
        "sick or anomalous",
    ),
    (r"not a validation target|do not use\b", "its header says that it is not a target"),
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
"""Operators of machines, by patterns; the first that matches counts."""


def odd_by_header(log: NcclLog) -> str:
    """Why a log says little about a healthy machine; empty when nothing in its header says so."""
    about = "; ".join(log.headers.get(key, "") for key in ("name", "config", "hardware", "note", "warning"))
    about = about.replace("_", " ")
    return next((reason for words, reason in _WORDS if re.search(words, about, re.IGNORECASE)), "")


def chosen_by_plugin(log: NcclLog) -> bool:
    """Whether a header says that a tuner plugin chose the algorithms in place of the library (aws-ofi-nccl does)."""
    return "tuner" in log.headers.get("config", "").lower()


def listed_as_odd(folder: Path) -> frozenset[str]:
    """Numbers of logs that a README lists as anomalous or untuned (`Anomalous or untuned: 13, 42.`)."""
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
    """Operator of the machine of a log."""
    keys = ("name", "config", "hardware", "source")
    about = "; ".join(log.headers.get(key, "") for key in keys).replace("_", " ")
    return next((name for name, words in _OPERATORS if re.search(words, about, re.IGNORECASE)), "unknown")


MIB = 1 << 20
MOST_RANKS = 1 << 17

LEAST_BUSBW_GBS = 0.05
"""Bandwidths are printed with two decimals; where a time was worked out from one, less than this says too little."""


@dataclass(frozen=True)
class CollectiveResult:
    """One measured time of one size.

    Attributes:
        log: Name of the log's file.
        block: What the log calls the table, where it has several.
        placement: `out-of-place` or `in-place`.
        collective: In Railyard's words.
        error: (predicted - measured) / measured, of `error_of`.
        error_of: `busbw` from 1 MiB up, `time` below.
        status: `ok` or `skipped`.
        odd: Why the log does not show a healthy machine, by its header or the README of its folder; else empty.
        launch: Class of the launch: `bare metal`, `cloud` or `Python`.
        published: Year and month of the log's publication, `2025-06`; empty when unknown.
        version: Of its library, `2.28`, where the log says it; else empty.
        bad: Whether the line is at fault, and not what the log is about.
    """

    log: str
    line: int
    block: str = ""
    placement: str = ""
    ranks: int = 0
    collective: str = ""
    bytes: int = 0
    measured_us: float | None = None
    predicted_us: float | None = None
    measured_busbw_gbs: float | None = None
    predicted_busbw_gbs: float | None = None
    error: float | None = None
    error_of: str = ""
    status: str = "ok"
    reason: str = ""
    algorithm: str = ""
    protocol: str = ""
    architecture: str = ""
    odd: str = ""
    defaults: tuple[str, ...] = ()
    launch: str = ""
    operator: str = ""
    published: str = ""
    version: str = ""
    bad: bool = False


def validate_log(log: NcclLog, catalog: Catalog, constants: LaunchConstants = CONSTANTS) -> list[CollectiveResult]:
    """Predicts every row of one log; what cannot be predicted is a skipped row that says why."""
    blocks = [block for block in log.blocks if block.rows or block.malformed]
    blocks = blocks or log_tables.markdown_tables(log) or log_tables.plain_tables(log)
    if not blocks:
        about = log.headers.get("test") or log.headers.get("metric") or log.headers.get("name") or log.file
        reason = f"not a collective: no table of nccl-tests in it ({about})"
        return [CollectiveResult(log.file, 1, status="skipped", reason=reason, published=log.published)]
    rows: list[CollectiveResult] = []
    for block in blocks:
        rows += _block_rows(log, block, catalog, constants)
    if not rows:
        return [CollectiveResult(log.file, blocks[0].line, status="skipped", reason="a table without rows")]
    return rows


def _block_rows(log: NcclLog, block: LogTable, catalog: Catalog, constants: LaunchConstants) -> list[CollectiveResult]:
    collective = _collective(log, block)
    ranks, assumed = _ranks(log, block, collective)
    blank = CollectiveResult(
        log.file,
        block.line,
        block=block.title,
        ranks=ranks,
        collective=collective,
        odd=odd_by_header(log),
        operator=operator_of(log),
        published=log.published,
        version=stated_version(log),
    )
    rows = [
        replace(blank, line=bad.line, status="skipped", bad=True, reason=f"{log.path}:{bad.line}: {bad.message}")
        for bad in block.malformed
    ]
    refusal = _refusal(block, collective, ranks)
    if refusal is None:
        try:
            where = setting(log, block, collective, ranks, catalog, constants=constants)
        except InputError as error:
            refusal = error.problems[0].headline()
    if refusal is not None:
        return rows + [_skipped(blank, row, refusal) for row in block.rows]
    known = replace(
        blank,
        defaults=(*assumed, *where.defaults),
        launch=where.launch.name,
        architecture=where.cluster.accelerator.architecture.lower(),
    )
    worked_out = block.line == 0 or bool(block.algorithm) or "time recomputed" in log.headers.get("source", "")
    rounded = [row for row in block.rows if worked_out and row.busbw_gbs < LEAST_BUSBW_GBS]
    reason = "the time was worked out from a bandwidth that is rounded too far"
    kept = [row for row in block.rows if row not in rounded]
    return [*rows, *(_skipped(known, row, reason) for row in rounded), *_predicted_rows(known, kept, where)]


def _collective(log: NcclLog, block: LogTable) -> str:
    """The collective of a table: its own, the log's, or what its rows say where the log lists several."""
    if block.collective:
        return block.collective
    said = log.headers.get("collective") or log.headers.get("test", "").split(" ")[0]
    listed = [collective_of(part) for part in said.split("+")]
    listed = [name for name in listed if name]
    if len(listed) < 2 or block.reduces is None:
        return listed[0] if listed else ""
    adds = ("all-reduce", "reduce-scatter", "reduce")
    return next((name for name in listed if (name in adds) == block.reduces), listed[0])


def _ranks(log: NcclLog, block: LogTable, collective: str) -> tuple[int, tuple[str, ...]]:
    """Ranks of a table, and what had to be assumed: the table's own bandwidths outweigh the log's header."""
    said = log.headers.get("ranks", "")
    header = block.ranks or (int(said[:9]) if said.isascii() and said.isdigit() else 0)
    header = header or (0 if said else len(log.devices))
    implied = ranks_of(block, collective)
    if implied is None:
        return header, ()
    if header and abs(implied - header) <= 0.03 * header:
        return header, ()
    nearest = 2 * round(implied / 2) if implied < 24 else 4 * round(implied / 4)
    if header:
        return nearest, (f"{nearest} ranks by busbw over algbw; the log's header says {header}",)
    return nearest, (f"{nearest} ranks by busbw over algbw",)


def _refusal(block: LogTable, collective: str, ranks: int) -> str | None:
    if not collective:
        return "not a collective that nccl-tests has"
    if ranks < 2:
        return "the log does not say how many ranks took part"
    if ranks > MOST_RANKS:
        return f"{ranks} ranks are more than any log has"
    if "ipoib" in block.title.lower():
        return "IP over InfiniBand: TCP through the host, no RDMA; no fabric of the catalogue is that"
    return None


def _skipped(blank: CollectiveResult, row: Measurement, reason: str) -> CollectiveResult:
    return replace(
        blank,
        line=row.line,
        placement=row.placement,
        bytes=row.size_bytes,
        measured_us=row.time_us if math.isfinite(row.time_us) else None,
        status="skipped",
        reason=reason,
    )


def _predicted_rows(known: CollectiveResult, rows: list[Measurement], where: LogMachine) -> list[CollectiveResult]:
    usable = [row for row in rows if row.size_bytes > 0 and math.isfinite(row.time_us) and row.time_us > 0]
    sizes = np.array(sorted({row.size_bytes for row in usable}), np.int64)
    try:
        predicted = predict(where, known.collective, known.ranks, sizes) if len(sizes) else {}
    except InputError as error:
        return [_skipped(known, row, error.problems[0].headline()) for row in rows]
    out = []
    for row in rows:
        if row.size_bytes in predicted and row in usable:
            out.append(_scored(known, row, *predicted[row.size_bytes]))
            continue
        reason = "size 0: nothing is sent" if row.size_bytes == 0 else "no time was published"
        out.append(_skipped(known, row, reason))
    return out


def _scored(
    known: CollectiveResult, row: Measurement, time_us: float, algorithm: str, protocol: str
) -> CollectiveResult:
    scale = row.size_bytes * bus_factor(known.collective, known.ranks) / 1e3
    large = row.size_bytes >= MIB
    error = row.time_us / time_us - 1 if large else time_us / row.time_us - 1
    return replace(
        known,
        line=row.line,
        placement=row.placement,
        bytes=row.size_bytes,
        measured_us=row.time_us,
        predicted_us=time_us,
        measured_busbw_gbs=scale / row.time_us,
        predicted_busbw_gbs=scale / time_us,
        error=error,
        error_of="busbw" if large else "time",
        algorithm=algorithm,
        protocol=protocol,
    )


def predict(
    where: LogMachine, collective: str, ranks: int, sizes: NDArray[np.int64]
) -> dict[int, tuple[float, str, str]]:
    """Time in us, algorithm and protocol by size.

    Args:
        where: The cluster and what its launch adds.
        collective: In Railyard's words; `send-receive` is every rank to the next.
        ranks: The first ranks of the cluster.
        sizes: int64[k], nccl-tests sizes in ascending order.
    """
    if where.small_policy is None:
        rows = _alone(where, where.policy, collective, ranks, sizes)
    else:
        small = sizes <= PUT_SMALL_BYTES * ranks
        rows = _alone(where, where.small_policy, collective, ranks, sizes[small])
        rows += _alone(where, where.policy, collective, ranks, sizes[~small])
    time_us = where.launch.times_us(sizes, np.array([row[0] for row in rows], np.float64))
    return {int(size): (float(time_us[i]), *rows[i][1:]) for i, size in enumerate(sizes)}


def _alone(
    where: LogMachine, policy: CollectivePolicy, collective: str, ranks: int, sizes: NDArray[np.int64]
) -> list[tuple[float, str, str]]:
    """Time in us, algorithm and protocol of each size, without the launch."""
    if collective == "send-receive":
        return [_ring_of_sends(where, ranks, int(size)) for size in sizes]
    if len(sizes) == 0:
        return []
    count = np.ones(len(sizes), np.int32)
    everyone = Communicators.of([range(ranks)])
    kind = np.full(len(sizes), KINDS[collective], np.uint8)
    table = lower_collectives(
        where.cluster, everyone, (np.zeros(len(sizes), np.int32), kind, sizes, count), policy=policy
    )
    columns = zip(table.alone_ps, table.algorithm, table.protocol, strict=True)
    return [(float(alone) / 1e6, str(name), str(protocol)) for alone, name, protocol in columns]


def _ring_of_sends(where: LogMachine, ranks: int, size: int) -> tuple[float, str, str]:
    """Time in us, "transfer" and protocol of `sendrecv_perf`: every rank sends to the next one."""
    source, target = neighbours(Shape.grid(1, ranks))
    table = lower_transfers(
        where.cluster,
        source.astype(np.int32),
        target.astype(np.int32),
        np.full(ranks, size),
        np.ones(ranks, np.int32),
        policy=where.policy,
        ranks=ranks,
    )
    return float(table.alone_ps.max()) / 1e6, "transfer", str(table.protocol[0])
