"""Reading samples and saving state: storage traffic of a step.

Reading. At the start of a step, each reading rank starts to read the samples of a later step, and its workers prepare
them (see `loading`). Without prefetch the first forward pass waits for both. With prefetch only the end of the step
waits:
in a run of equal steps, loading that takes less than a step is never waited for, and longer loading makes each step as
long as it is, however many steps are read ahead. With W workers, each does its other work during the transfers of the
others: the worker's task waits for the first W-th of the bytes and takes a W-th of its time, which makes the step
max(R, (R + P) / W).

Checkpoints. Every rank writes its share of parameters and optimizer state, or one gathers and writes everything. A
synchronous checkpoint ends a step. An asynchronous one stalls it only for the copy to host memory (or overlaps the copy
with the next step); the write is spread evenly over the steps up to the next checkpoint, and competes for the network
in
each of them. It delays a step only if the whole interval is too short. Copies in the memory of other servers cross the
network between accelerators, spread over the steps between two checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.kit.errors import InputError, Problem
from railyard.kit.quantities import format_size
from railyard.work.training import stored
from railyard.work.training.loading import Load, cache_seconds, cores_of, load_of
from railyard.work.training.parallel.finish import behind, distinct_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.pieces import StepBuilder
    from railyard.work.training.spec import Checkpoint

# Reads and paced writes start with the step, before everything else on their stream.
_START = -4
_WRITES = -2

_LONGEST_S = 4000.0
"""An hour and more of a single task: nothing real, and what the core takes at most."""


def read_samples(step: StepBuilder) -> list[NDArray[np.int64]]:
    """Adds reading and preparing; returns what the end of the step waits for, if anything."""
    data, cluster = step.training.data, step.cluster
    if data is None:
        return []
    load = load_of(step.training, cluster.servers)
    latency_s = 0.0 if cluster.storage_servers is None else cluster.storage_servers.latency_ps * 1e-12
    worker_s = load.worker_s(latency_s, data.queue_depth, cache_seconds(step.training, cluster.ranks_per_server, load))
    least_s = load.prepare_s / cores_of(step.training, cluster.server.host_cores, cluster.ranks_per_server)
    if data.prefetch and data.workers:
        return _preparing(step, load, worker_s, least_s)
    loaded = _reads(step, load.stored_bytes, load.requests, _START)
    if worker_s > 0:
        each = max(worker_s / max(1, min(data.workers, step.training.layout.micro_batches)), least_s)
        loaded = _prepares(step, loaded, each)
    first = np.flatnonzero(step.pieces.stage == 0)[:1]
    for begun in step.pieces.begins():
        step.program.wait(begun[first], loaded)
    return []


def _preparing(step: StepBuilder, load: Load, worker_s: float, least_s: float) -> list[NDArray[np.int64]]:
    """Workers that load during the step; `least_s`: with all cores of the host at work."""
    workers = 1 if step.training.data is None else min(step.training.data.workers, max(1, load.stored_bytes))
    if worker_s <= 0:
        return [_reads(step, load.stored_bytes, load.requests, _START)]
    first_bytes = -(-load.stored_bytes // workers)
    first_requests = -(-load.requests // workers)
    first = _reads(step, first_bytes, first_requests, _START)
    slots = [_prepares(step, first, max(worker_s / workers, least_s))]
    if load.stored_bytes > first_bytes:
        rest = max(1, load.requests - first_requests)
        slots.append(_reads(step, load.stored_bytes - first_bytes, rest, _START + 1))
    return slots


def _space(step: StepBuilder) -> str:
    return "rank" if step.training.data is not None and step.training.data.every_rank else "tp"


def _reads(step: StepBuilder, size_bytes: int, requests: int, order: int) -> NDArray[np.int64]:
    return step.program.add(
        _space(step),
        Kind.READ,
        Stream.STORAGE,
        stage=0,
        order=order,
        phase="data",
        op="read samples",
        size_bytes=size_bytes,
        count=requests,
    )


def _prepares(step: StepBuilder, read: NDArray[np.int64], seconds: float) -> NDArray[np.int64]:
    slots = step.program.add(
        _space(step),
        Kind.COMPUTE,
        Stream.LOADER,
        stage=0,
        order=_START + 1,
        phase="data",
        op="prepare samples",
        duration_ps=_picoseconds(np.array([seconds]), "data.item_time", "loading the samples of a step"),
    )
    step.program.wait(slots, read)
    return slots


def _picoseconds(seconds: NDArray[np.float64], key: str, what: str) -> NDArray[np.int64]:
    """Durations of tasks.

    Raises:
        InputError: One is longer than a task may be.
    """
    if seconds.size and seconds.max() > _LONGEST_S:
        raise InputError(
            f"{what} would take longer than can be simulated",
            key=key,
            found=f"{seconds.max():.3g} s",
            allowed=f"at most {_LONGEST_S:g} s",
        )
    return np.rint(seconds * 1e12).astype(np.int64)


def state_share(step: StepBuilder) -> NDArray[np.int64]:
    """int64[pp]: checkpoint bytes of each rank of a stage, if all have different ones."""
    saved = step.training.checkpoint
    each = 0.0 if saved is None else saved.bytes_per_parameter
    return np.ceil(distinct_parameters(step) * each).astype(np.int64)


def save_state(step: StepBuilder, end: NDArray[np.int64], *, checkpoint: bool) -> list[NDArray[np.int64]]:
    """Adds the writes of this step.

    Args:
        step: The step.
        end: int64[pp], the last slot of every stage.
        checkpoint: Whether a checkpoint is taken at the end of this step.

    Returns:
        What the end of the step waits for, int64[pp] each.

    Raises:
        InputError: A value is impossible, or there is no other server for a copy.
    """
    saved = step.training.checkpoint
    if saved is None:
        return []
    _check(saved, step)
    saving = _Saving.of(step, saved)
    awaited = _copies_to_peers(step, saved)
    if not saved.asynchronous:
        return awaited + (saving.synchronously(end) if checkpoint else [])
    if checkpoint:
        awaited += saving.copied(end)
    return [*awaited, saving.written(-(-saving.share // saved.interval_steps), _WRITES, "write part of checkpoint")]


def _check(saved: Checkpoint, step: StepBuilder) -> None:
    ranks, server = step.cluster.ranks, step.cluster.ranks_per_server
    together = 1 if saved.gathered else min(server, ranks)
    layout, most = step.training.layout, step.cluster.server.host_memory_bytes
    cores = step.cluster.server.host_cores
    host_bytes = int(state_share(step).max()) * (layout.dp * layout.cp if saved.gathered else 1)
    host_bytes = host_bytes * together * (saved.memory_copies + 1) if saved.asynchronous or saved.memory_copies else 0
    problems = [
        Problem(message, key=f"checkpoint.{key}", found=str(found), allowed=allowed)
        for wrong, message, key, found, allowed in (
            (saved.interval_steps < 1, "a checkpoint is taken after at least one step", "interval_steps",
             saved.interval_steps, "1 or more"),
            (saved.memory_interval_steps < 1, "a copy is taken after at least one step", "memory_interval_steps",
             saved.memory_interval_steps, "1 or more"),
            (not 0 < saved.copy_share <= 1, "copies reach a share of the link to the host", "copy_share",
             saved.copy_share, "more than 0, at most 1"),
            (saved.bytes_per_parameter <= 0, "a checkpoint has bytes", "bytes_per_parameter",
             saved.bytes_per_parameter, "more than 0"),
            (saved.memory_copies * server >= ranks and saved.memory_copies > 0,
             "there are too few other servers for so many copies", "memory_copies", saved.memory_copies,
             f"at most {max(0, -(-ranks // server) - 1)}"),
            (saved.cores < 1 or (0 < cores < saved.cores * together),
             "the cores that encrypt and sum are the host's, for each of its ranks that write", "cores", saved.cores,
             f"1 to {max(cores // together, 1)}" if cores else "1 or more"),
            (saved.key_rate < 0, "a service answers", "key_rate", saved.key_rate,
             "0 or more"),
            (host_bytes > most, "the state of a server's accelerators and its copies do not fit in the host's memory",
             "memory_copies" if saved.memory_copies else "asynchronous", format_size(host_bytes),
             f"at most {format_size(most)}"),
        )
        if wrong
    ]  # fmt: skip
    if problems:
        raise InputError.many(problems)


def _copies_to_peers(step: StepBuilder, saved: Checkpoint) -> list[NDArray[np.int64]]:
    """Parts of the copies in the memory of the next servers."""
    part = -(-state_share(step) // saved.memory_interval_steps)
    return [
        step.program.add(
            "rank",
            Kind.TRANSFER,
            Stream.COPY,
            stage=np.arange(len(part)),
            order=np.full(len(part), _START + copy),
            phase="checkpoint",
            op="copy to other host",
            size_bytes=part,
            shift=(copy + 1) * step.cluster.ranks_per_server,
        )
        for copy in range(saved.memory_copies)
    ]


@dataclass(frozen=True)
class _Saving:
    """The ranks that save, and their bytes.

    Attributes:
        space: One task per rank, or one for all ranks with the same part of the model.
        share: int64[pp], bytes of each.
    """

    step: StepBuilder
    saved: Checkpoint
    space: str
    share: NDArray[np.int64]

    @staticmethod
    def of(step: StepBuilder, saved: Checkpoint) -> _Saving:
        layout, share = step.training.layout, state_share(step)
        if saved.gathered:
            return _Saving(step, saved, "dp", share * layout.dp * layout.cp)
        return _Saving(step, saved, "rank", share)

    def synchronously(self, end: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The write, and the copy to the host before it; both after the end of the step."""
        end = self._keyed(self._gathered(end))
        written = self.written(self.share, behind(self.step) + 1, "write checkpoint")
        copied = self._host_copy(Stream.COPY, behind(self.step) + 1, slowest=True)
        self.step.program.wait(written, end)
        self.step.program.wait(copied, end)
        return [written, copied]

    def copied(self, end: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The copy to the host of an asynchronous checkpoint: after the step, or overlapping it."""
        if self.saved.overlap_copy:
            return [self._host_copy(Stream.COPY, _START, slowest=False)]
        self._gathered(end)
        self._host_copy(Stream.COMPUTE, behind(self.step) + 1, slowest=False)
        return []

    def written(self, size_bytes: NDArray[np.int64], order: int, op: str) -> NDArray[np.int64]:
        """A write of every saving rank."""
        return self._add(Kind.WRITE, Stream.STORAGE, order, op, size_bytes=size_bytes)

    def _gathered(self, end: NDArray[np.int64]) -> NDArray[np.int64]:
        """The gather of the state to the saving ranks, unless they have it."""
        if self.space == "rank" or self.step.program.lattice.communicator_size("dp") == 1:
            return end
        order = behind(self.step)
        return self._add(
            Kind.COLLECTIVE,
            Stream.COMPUTE,
            order,
            "gather state",
            size_bytes=self.share,
            collective=CollectiveKind.ALL_GATHER,
        )

    def _keyed(self, end: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wait for the key service, if used: nothing leaves the host before its key has arrived."""
        ranks = self.step.cluster.ranks
        writers = ranks if self.space == "rank" else ranks // self.step.program.lattice.communicator_size("dp")
        wait_s = stored.keys_s(self.saved, writers)
        if not wait_s:
            return end
        duration = _picoseconds(np.full(len(self.share), wait_s), "checkpoint.key_time", "waiting for keys")
        keyed = self._add(Kind.COMPUTE, Stream.COPY, behind(self.step), "wait for keys", duration_ps=duration)
        self.step.program.wait(keyed, end)
        return keyed

    def _host_copy(self, stream: Stream, order: int, *, slowest: bool) -> NDArray[np.int64]:
        """The copy to host memory; `slowest`: or the creation of the file, if that is slower."""
        rate = self.step.cluster.server.pcie_bps * self.saved.copy_share
        if slowest:
            rate = min(rate, stored.file_bps(self.saved))
        duration = _picoseconds(
            np.asarray(self.share * 8.0 / rate, np.float64), "checkpoint.copy_share", "copying state to the host"
        )
        return self._add(Kind.COMPUTE, stream, order, "copy to host", duration_ps=duration)

    def _add(self, kind: Kind, stream: Stream, order: int, op: str, **columns: Any) -> NDArray[np.int64]:
        stages = len(self.share)
        return self.step.program.add(
            self.space,
            kind,
            stream,
            stage=np.arange(stages),
            order=np.full(stages, order),
            phase="checkpoint",
            op=op,
            **columns,
        )


def wait_for_storage(step: StepBuilder, reads: list[NDArray[np.int64]], saved: list[NDArray[np.int64]]) -> None:
    """Ends the compute streams of ranks that wait for storage with a zero-length task, so that the wait shows."""
    if reads:
        _marker(step, np.zeros(1, np.int64), "data", reads)
    if saved:
        _marker(step, np.arange(step.training.layout.pp), "checkpoint", saved)


def _marker(step: StepBuilder, stage: NDArray[np.int64], phase: str, awaited: list[NDArray[np.int64]]) -> None:
    order = behind(step) + (2 if phase == "data" else 3)
    slots = step.program.add(
        "rank",
        Kind.COMPUTE,
        Stream.COMPUTE,
        stage=stage,
        order=np.full(len(stage), order),
        phase=phase,
        op="wait",
    )
    for one in awaited:
        step.program.wait(slots, one)
