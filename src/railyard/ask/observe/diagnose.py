"""The diagnosis of whatever lies at a path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect
from railyard.ask.observe.summary import record_file
from railyard.graph import TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.files import readable

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.ask.observe.answer import PriceOfParts
    from railyard.ask.observe.gather import Gathered
    from railyard.graph import Record

WORTH_NAMING = 1.03
"""S from which on ByteDance's study takes a job for one with stragglers; below, nothing is named."""

MAIN_PART = 0.5
"""Share of the slowdown that the slowest workers, or the last stage, must explain to be named."""


def diagnose(path: Path, cluster_file: Path | None = None) -> Diagnosis:
    """What is wrong.

    Args:
        path: A run's folder, a record, a table of operations, or traces and dumps.
        cluster_file: The cluster, where links, NICs and hosts are to be named.

    Raises:
        InputError: Nothing at the path can be read, or the cluster's file is wrong.
    """
    file = record_file(path)
    if file is None:
        return _traces(path, cluster_file)
    if _is_operations(file):
        return _operations(file)
    return _record(file, cluster_file)


def _is_operations(file: Path) -> bool:
    import polars as pl
    from polars.exceptions import PolarsError

    try:
        return {"optype", "dp_rank"} <= set(pl.read_parquet_schema(readable(file)))
    except (OSError, PolarsError) as error:
        raise InputError("the file is not readable Parquet", file=file, found=str(error).splitlines()[0]) from None


def _record(file: Path, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.answer import cluster_for, seed_of, usd_per_hour
    from railyard.ask.observe.diagnosis.simulated import diagnose as of_tasks
    from railyard.ask.observe.diagnosis.verdict import Price
    from railyard.graph.parquet import read_record

    record = _blind(read_record(file))
    if not isinstance(record.work, TaskGraph):
        raise InputError(
            "the record has no task graph, which a diagnosis replays", file=file, found=f"rows: {record.rows}"
        )
    cluster = None if cluster_file is None else cluster_for(record, cluster_file)
    price = Price() if cluster is None else Price(usd_per_hour(record, cluster))
    said = record.meta.get("seed")
    seeds = [] if cluster_file is None else [seed_of(cluster_file), *([said] if isinstance(said, int) else [])]
    return of_tasks(record, cluster, price, seeds)


def _blind(record: Record) -> Record:
    """The record with nothing in its `meta` but the seed of its hashes: no engine's word reaches a diagnosis."""
    return replace(record, meta={name: value for name, value in record.meta.items() if name == "seed"})


def _operations(file: Path) -> Diagnosis:
    from railyard.ask.observe.whatif.operations import read_operations
    from railyard.ask.observe.whatif.slowdown import slowdown

    found = slowdown(read_operations(file))
    answer = Diagnosis(
        what_if={
            "S": found.slowdown,
            "S_t": found.by_kind,
            "S_dp": dict(enumerate(found.by_data_parallel)),
            "S_stage": dict(enumerate(found.by_stage)),
            "S_w": found.by_worker,
            "M_W": found.workers,
            "M_S": found.last_stage,
            "step_s": found.step_s,
            "ideal_s": found.ideal_s,
        }
    )
    if found.slowdown < WORTH_NAMING:
        return answer
    if found.last_stage >= MAIN_PART and len(found.by_stage) > 1:
        words = f"S {found.slowdown:.4f}; {min(found.last_stage, 1):.0%} of it goes with a last stage like the others"
        answer.verdict.append(Suspect(f"stage {len(found.by_stage) - 1}", "stage", 0.8, words))
    if found.workers >= MAIN_PART:
        slowest = list(found.by_worker)[int(np.argmax(list(found.by_worker.values())))]
        words = f"S {found.slowdown:.4f}; {min(found.workers, 1):.0%} of it goes without the slowest 3 % of workers"
        answer.verdict.append(Suspect(f"rank {slowest}", "rank", 0.8, words))
    answer.unknown = not answer.verdict
    return answer


def _traces(path: Path, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.gather import gather

    found = gather(path)
    answer = _of_traces(found, cluster_file)
    answer.notes += [words for words in found.remarks if words not in answer.notes]
    return answer


def _of_traces(found: Gathered, cluster_file: Path | None) -> Diagnosis:
    """By what says most: calls that hang, states of communicators, counters of ports, times of kernels."""
    from railyard.ask.observe.diagnosis.ports import diagnose_ports
    from railyard.ask.observe.hangs import diagnose_calls, diagnose_counts

    pieces = found.pieces

    if any(piece.calls for piece in pieces):
        return diagnose_calls(pieces)
    if any(piece.members or piece.well for piece in pieces):
        return diagnose_counts(pieces)
    if any(piece.counts for piece in pieces):
        return diagnose_ports(pieces, _price_of_parts(cluster_file))
    if any(piece.kernels for piece in pieces):
        return _kernels(found, cluster_file)
    raise InputError(
        "what was read says how fast collectives were or what they run over, and of no part whether it is well",
        file=found.pieces[0].source if found.pieces else None,
        found="; ".join(found.remarks[:8]) or None,
        allowed="timelines, flight recorder dumps, states of communicators, counters of ports",
        hint="`railyard observe PATH --cluster SCENARIO` compares them with what the cluster should reach",
    )


def _kernels(found: Gathered, cluster_file: Path | None) -> Diagnosis:
    from railyard.ask.observe.answer import cluster_of, traced_usd_per_hour
    from railyard.ask.observe.diagnosis.traced import diagnose as of_kernels
    from railyard.ask.observe.diagnosis.verdict import Price
    from railyard.ask.observe.measured import record_of
    from railyard.ask.observe.summary import summary

    record = record_of(found)
    figures = summary(record)
    if cluster_file is None:
        return of_kernels(record, figures, missing=found.missing_ranks)
    cluster = cluster_of(cluster_file)
    price = Price(traced_usd_per_hour(cluster, figures["span_s"], figures["utilization"]))
    return of_kernels(record, figures, cluster.ranks_per_server, price, found.missing_ranks)


def _price_of_parts(cluster_file: Path | None) -> PriceOfParts | None:
    from railyard.ask.observe.answer import cluster_of, parts_of

    return None if cluster_file is None else parts_of(cluster_of(cluster_file))
