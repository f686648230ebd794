"""The data loader: what a rank reads and prepares for a step, and how long that takes alongside computation.

A rank's W workers load whole batches in turn. For one step's samples a worker reads for R seconds (sharing bandwidth
with
all concurrent readers) and is busy for P more (preparing, waiting for each request's first byte, reading a cache). With
prefetch the next steps are loaded while this one computes. Workers share the path to storage but not their cores, so
the
steps loaded per second are those of a closed queue of W customers with one shared server and W cores:

    loading = max(R, (R + P) / W, p / c)     a step takes max(compute, loading)
    without prefetch, or with W = 0          a step takes compute + R + P / max(1, min(W, micro-batches))

with p the processor time in P, and c the host cores per reading rank, if known.

Sample sizes vary. `mean_step_s` simulates the workers, a buffer of some steps and a step that starts when the slowest
rank has its samples, and gives the mean step; the bound above is its limit for equal batches.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.quantities import format_size, halved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Server
    from railyard.work.training.spec import Access, CachePolicy, DataLoading, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to store samples.

    Attributes:
        bytes_per_token: Stored bytes per training token.
        items_per_sequence: Files or records per sequence, in addition to its tokens.
        item_size_bytes: Mean stored size of one.
        item_spread: Standard deviation of that size over its mean.
        token_time_ps: Processor time to prepare one token, on one core.
        item_time_ps: Processor time to prepare one item, on one core.
        access: Whether a worker reads ahead through shards or requests each piece separately.
        request_size_bytes: Largest single request.
        confidence: `measured`, `vendor` or `estimated`.
    """

    name: str
    summary: str
    bytes_per_token: float
    items_per_sequence: float
    item_size_bytes: int
    item_spread: float
    token_time_ps: int
    item_time_ps: int
    access: Access
    request_size_bytes: int
    source: str
    year: int
    confidence: str


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    text = resources.files("railyard.work.training").joinpath("data/formats.toml").read_text("utf-8")
    return {name: Format(name=name, **values) for name, values in tomllib.loads(text).items()}


def format_of(data: DataLoading) -> Format:
    """The format of a job's samples, with the job's own values.

    Raises:
        InputError: The format is unknown, or a value is impossible.
    """
    known = formats()
    if data.format not in known:
        raise InputError(
            "there is no such dataset format",
            key="format",
            found=data.format,
            allowed=list(known),
            hint=did_you_mean(data.format, list(known)),
        )
    base = known[data.format]
    values = {name: getattr(base, name) for name in Format.__dataclass_fields__}
    for name in values:
        given = getattr(data, name, None)
        if given is not None and name not in {"name", "summary", "source", "year", "confidence"}:
            values[name] = given
    return Format(**values)


_STEPS = 60
_LONGEST_GAPS, _POINTS_PER_EPOCH, _MOST_POINTS = 16, 200, 200_000


def hit_rate(policy: CachePolicy, cache_bytes: float, dataset_bytes: float, servers: int = 1) -> float:
    """Share of a later epoch's bytes that the caches serve.

    Args:
        policy: How the cache evicts.
        cache_bytes: Cache of one server.
        dataset_bytes: Above 0.
        servers: Servers that read the dataset together.
    """
    share = min(cache_bytes / dataset_bytes, 1.0)
    if policy == "none" or share <= 0:
        return 0.0
    if policy == "shared":
        return min(servers * share, 1.0)
    if share >= 1.0:
        return 1.0
    if policy == "pinned":
        return share
    return _random_replacement(share, servers) if policy == "page-cache" else _least_recent(share, servers)


def _random_replacement(share: float, servers: int) -> float:
    return 1 - halved(lambda missed: 1 - _survival(missed / (servers * share), servers) > missed, 0.0, 1.0, _STEPS)[1]


def _survival(rate: float, servers: int) -> float:
    """Expectation of exp(-rate x g)."""
    if rate <= 0:
        return 1.0
    gone = -math.expm1(-rate)
    return (gone / rate) ** 2 / servers / (1 - (1 - 1 / servers) * (1 - gone))


def _least_recent(share: float, servers: int) -> float:
    span = 2.0 + _LONGEST_GAPS * servers
    time = np.linspace(0.0, span, min(_MOST_POINTS, round(span * _POINTS_PER_EPOCH)))
    within = _gap_cdf(time, servers)
    covered = np.concatenate([[0.0], np.cumsum(np.diff(time) * (1 - (within[1:] + within[:-1]) / 2))]) / servers
    lasts = float(np.interp(share, covered, time))
    return float(np.interp(lasts, time, within))


def _gap_cdf(time: NDArray[np.float64], servers: int) -> NDArray[np.float64]:
    """P(g <= t): the triangle of 1 - u + v, shifted by a geometric number of whole epochs, weights q^k / N.

    At t = n + x all shifts up to n - 2 are within, that of n - 1 up to 1 - (1 - x)^2 / 2, that of n up to x^2 / 2.
    """
    epochs = np.floor(time)
    part, kept = time - epochs, 1 - 1 / servers
    before, last = (np.where(epochs >= 1, _power(kept, epochs - 1), 0.0), _power(kept, epochs))
    passed = np.where(epochs >= 1, 1 - before, 0.0)
    return passed + before / servers * (1 - (1 - part) ** 2 / 2) + last / servers * part**2 / 2


def _power(base: float, exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(base ** np.maximum(exponent, 0.0), np.float64)


_DEEPEST = 1000
_PLAYED_STEPS = 400
_MOST_PLAYED_RANKS = 4096
_MOST_BYTES = 1e15
_LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one reading rank per step.

    Attributes:
        cached_bytes: Bytes from the server's cache.
        requests: Requests to storage, at least 1.
        prepare_s: Processor time, all workers together.
        spread: Standard deviation of the rank's bytes over their mean.
    """

    stored_bytes: int
    cached_bytes: int
    requests: int
    prepare_s: float
    spread: float

    def worker_s(self, latency_s: float, queue_depth: int, cache_s: float) -> float:
        """Worker time of a step other than the transfer, seconds.

        Args:
            latency_s: Time from a request to its first byte.
            queue_depth: Outstanding requests per worker.
            cache_s: Read time of the server's cache, over all its ranks.
        """
        waits = (self.requests - 1) * latency_s / queue_depth  # the transfer itself pays the first one
        return self.prepare_s + waits + cache_s


def load_of(training: Training, servers: int) -> Load:
    """Load of each reading rank per step.

    PRE: The job reads data.

    Raises:
        InputError: The format is unknown, or a value is impossible.
    """
    data, layout = training.data, training.layout
    if data is None:
        raise InputError("the job reads no data", key="data")
    form = format_of(data)
    check(data, form)
    sequences = layout.replica_batch / layout.cp
    text, items = form.bytes_per_token * training.seq_len, form.items_per_sequence
    total = sequences * (text + items * form.item_size_bytes)
    hit = 0.0
    if data.cache != "none" and data.epoch == "later":
        hit = hit_rate(data.cache, data.cache_size_bytes, data.dataset_size_bytes, servers)
    pieces = sequences * ((1 if text else 0) * _requests(text, form) + items * _requests(form.item_size_bytes, form))
    asked = 1 if form.access == "sequential" else max(1, math.ceil(pieces * (1 - hit)))
    prepare_ps = sequences * (training.seq_len * form.token_time_ps + items * form.item_time_ps)
    _check_amount(total)
    stored = round(total * (1 - hit))
    varied = items * form.item_size_bytes * form.item_spread / math.sqrt(sequences * items) if items else 0.0
    mean = text + items * form.item_size_bytes
    return Load(
        stored, round(total) - stored, min(asked, _LARGEST_COUNT), prepare_ps * 1e-12, varied / mean if mean else 0.0
    )


def _check_amount(size_bytes: float) -> None:
    """Rejects impossible amounts."""
    if size_bytes > _MOST_BYTES:
        raise InputError(
            "one rank would read more in a step than can be simulated",
            key="data.item_size",
            found=f"{size_bytes:.3g} B a step",
            allowed=f"at most {_MOST_BYTES:.0e} B",
        )


def _requests(size_bytes: float, form: Format) -> int:
    return max(1, math.ceil(size_bytes / form.request_size_bytes))


def check(data: DataLoading, form: Format) -> None:
    """Rejects impossible values.

    Raises:
        InputError: All that is wrong.
    """
    problems = [
        Problem(message, key=key, found=str(found), allowed=allowed)
        for wrong, message, key, found, allowed in (
            (form.bytes_per_token == 0 and form.items_per_sequence * form.item_size_bytes == 0,
             "the job reads data, but its samples have no bytes", "items_per_sequence", form.items_per_sequence,
             "more than 0, of an item_size above 0"),
            (data.cache != "none" and data.dataset_size_bytes < 1,
             "how much a cache serves follows from the size of the dataset", "dataset_size", data.dataset_size_bytes,
             "the bytes of an epoch, such as 140 GB"),
            (data.cache != "none" and data.cache_size_bytes < 1, "a cache has a size", "cache_size",
             data.cache_size_bytes, "the bytes that one server keeps, such as 500 GB"),
        )
        if wrong
    ]  # fmt: skip
    if problems:
        raise InputError.many(problems)


def check_cache(data: DataLoading, server: Server) -> None:
    """Rejects an in-memory cache that is larger than the memory of a server.

    Raises:
        InputError: It is larger.
    """
    in_memory = data.cache == "page-cache" or (data.cache != "none" and data.cache_read_bps == 0)
    if in_memory and data.cache_size_bytes > server.host_memory_bytes:
        raise InputError(
            f"the cache is in memory, and a server ({server.name}) has less",
            key="cache_size",
            found=format_size(data.cache_size_bytes),
            allowed=f"at most {format_size(server.host_memory_bytes)}",
            hint="a cache on the server's drives has `cache_read`, the rate at which they are read",
        )


def readers(training: Training) -> int:
    """Ranks that read: all of the first stage, or one of each of its tensor-parallel groups."""
    layout = training.layout
    every = training.data is not None and training.data.every_rank
    return layout.dp * layout.cp * (layout.tp if every else 1)


def readers_together(training: Training, ranks_per_server: int) -> int:
    """Ranks of one server that read."""
    group = 1 if training.data is not None and training.data.every_rank else training.layout.tp
    return min(max(1, ranks_per_server // group), readers(training))


def cache_seconds(training: Training, ranks_per_server: int, load: Load) -> float:
    """Read time of a server's cache per step, over all ranks of the server, seconds."""
    data = training.data
    if data is None or not load.cached_bytes or data.cache_read_bps <= 0:
        return 0.0
    return load.cached_bytes * 8 * readers_together(training, ranks_per_server) / data.cache_read_bps


def cores_of(training: Training, cores: int, ranks_per_server: int) -> float:
    """Host cores per reading rank; infinite if the host's cores are unknown."""
    return cores / readers_together(training, ranks_per_server) if cores else math.inf


def with_faster_loading(training: Training, factor: float) -> Training:
    """The job with loader workers that need less processor time by this factor; the storage system is unchanged."""
    data = training.data
    if data is None:
        return training
    form = format_of(data)
    faster = dataclasses.replace(
        data,
        token_time_ps=round(form.token_time_ps / factor),
        item_time_ps=round(form.item_time_ps / factor),
        queue_depth=max(1, round(data.queue_depth * min(factor, _DEEPEST))),
    )
    return training.replace(data=faster)


def loading_s(read_s: float, worker_s: float, workers: int, *, least_s: float = 0.0) -> float:
    """Time to load the samples of a step if steps are loaded one at a time, seconds.

    Args:
        read_s: Transfer time of the rank's bytes.
        worker_s: Additional worker time per step.
        workers: Workers of the rank.
        least_s: Preparation time with all cores of the host.
    """
    return max(read_s, (read_s + worker_s) / max(workers, 1), least_s)


def step_s(
    compute_s: float,
    read_s: float,
    worker_s: float,
    *,
    workers: int,
    prefetch: int,
    batches: int = 1,
    least_s: float = 0.0,
) -> float:
    """Time of a step, seconds.

    Args:
        compute_s: Time without waiting for data.
        read_s: Time to read the step's bytes from storage, at this rank's rate.
        worker_s: Additional worker time per step.
        workers: Number of workers in addition to the training process.
        prefetch: Steps read ahead.
        batches: Micro-batches per step, which workers load one by one.
        least_s: Preparation time with all cores of the host.
    """
    if workers and prefetch:
        return max(compute_s, loading_s(read_s, worker_s, workers, least_s=least_s))
    return compute_s + read_s + max(worker_s / max(1, min(workers, batches)), least_s)


def mean_step_s(
    compute_s: float, batch_s: float, *, spread: float, workers: int, prefetch: int, ranks: int, seed: int = 0
) -> float:
    """Mean step if the time to load a batch varies, seconds; simulated, not fitted.

    Each of W workers loads every W-th batch of its rank; batch k is asked for when step k - depth has taken its own. A
    step starts when all ranks have theirs. Times are gamma-distributed, independent.

    Args:
        compute_s: Time of a step.
        batch_s: Mean time of one worker to load a batch.
        spread: Standard deviation of that time over its mean.
        workers: At least 1.
        prefetch: Batches that each worker may have loaded or in progress.
        ranks: Ranks that wait for one another.
        seed: Seed of the draws.
    """
    if batch_s <= 0:
        return compute_s
    workers, played = min(workers, _PLAYED_STEPS), min(ranks, _MOST_PLAYED_RANKS)
    depth = workers * max(prefetch, 1)
    draw = np.random.default_rng(seed)
    shape = 1 / spread**2 if spread > 0 else 0.0
    free, taken, ends = np.zeros((workers, played)), np.zeros(_PLAYED_STEPS), 0.0
    for step in range(_PLAYED_STEPS):
        time = draw.gamma(shape, batch_s / shape, played) if shape else np.full(played, batch_s)
        asked = taken[step - depth] if step >= depth else 0.0
        worker = step % workers
        free[worker] = np.maximum(free[worker], asked) + time
        taken[step] = max(ends, float(free[worker].max()))
        ends = taken[step] + compute_s
    half = _PLAYED_STEPS // 2
    return float(ends - compute_s - taken[half - 1]) / (_PLAYED_STEPS - half)
