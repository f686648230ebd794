"""A recorded run served again by the simulated engine: the same requests and settings, seconds of each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Cost, Deployment, Pool, Router, simulate
from railyard.kit.errors import InputError
from railyard.work.serving.layout import Deployments
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.lockstep import copy_cost
from railyard.work.serving.memory import Room, cache_tokens, divide
from railyard.model.machine import Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Catalog, Model
    from railyard.ask.calibrate.runs.read import RecordedRun
    from railyard.work.serving.software import ServingSoftware

    F = NDArray[np.float64]

_PS = 1e12
# NIC of a server, where a run spans one only: nothing goes over it.
_SCALE_OUT_BPS = 400e9


@dataclass(frozen=True, eq=False)
class Setting:
    """A run with its model and device found in the catalogue, and its replica laid out."""

    run: RecordedRun
    model: Model
    device: Accelerator
    layout: ServingLayout

    @classmethod
    def of(cls, run: RecordedRun, catalog: Catalog) -> Setting:
        """Finds the model and the device.

        Copies (`data_parallel_size`) of a model with experts that are spread over all are one replica with copies of
        attention. Raises InputError where the catalogue does not know one of them.
        """
        model, device = _model(run.model, catalog), catalog.accelerator(run.device)
        spread = run.expert_parallel and model.experts > 0
        layout = ServingLayout(
            tp=run.tp,
            dp_attention=run.dp if spread else 1,
            ep=run.tp * run.dp if spread else 1,
            precision=run.precision,
            kv_bits=run.kv_bits,
        )
        return cls(run, model, device, layout)

    @property
    def copies(self) -> int:
        """Schedulers of one replica, each with its own limits."""
        return self.layout.dp_attention

    @property
    def replicas(self) -> int:
        """Replicas that share nothing."""
        return self.run.dp // self.copies

    @property
    def machine(self) -> Machine:
        """One server: all ranks reach each other over what the cards have, NVLink or PCIe."""
        domain = max(self.device.scale_up_domain, self.run.tp * self.run.dp)
        return Machine.of_device(self.device, _SCALE_OUT_BPS, domain)

    def cache_tokens(self) -> int:
        """Tokens that the cache of one replica should hold, by the engine's rule."""
        rows, run = Deployments.of((self.model, self.layout, self.machine)), self.run
        capacity = cache_tokens(
            rows, share=run.memory_share, tokens=float(run.max_batched_tokens), most=float(run.max_sequences)
        )
        return int(capacity[0])

    def room(self, state: float) -> Room:
        """Cached tokens and sequences of one copy, where states of a sequence take the room of that many tokens."""
        run = self.run
        return divide(
            float(self.cache_tokens() // self.copies),
            state,
            run.input_tokens.astype(np.float64) + run.output_tokens,
            context=float(run.input_tokens.mean() + run.output_tokens.mean() / 2.0),
            most=run.max_sequences,
        )


def _model(name: str, catalog: Catalog) -> Model:
    """The model of a repository's name, whoever published it."""
    try:
        return catalog.model(name)
    except InputError:
        short = name.rsplit("/", maxsplit=1)[-1]
        if short == name:
            raise
        return catalog.model(short)


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of it, by request in the order of arrival.

    Attributes:
        ttft_s, tpot_s: f64[n], as in `RecordedRun`.
        preemptions: Of all requests together.
        end_s: When the last one was done.
    """

    ttft_s: F
    tpot_s: F
    preemptions: int
    end_s: float


@dataclass(frozen=True, eq=False)
class _Asked:
    """Requests as the engine reads them, with hashes of blocks that no two requests share.

    A record does not tell which prompts begin alike. Its own blocks serve a request again when it was preempted.
    """

    arrival_ps: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    block_ptr: NDArray[np.int64]
    block_hash: NDArray[np.uint64]
    block_tokens: int
    session: NDArray[np.int64]

    @classmethod
    def of(cls, run: RecordedRun) -> _Asked:
        size = run.block_tokens if run.prefix_cache else 0
        tokens = run.input_tokens.astype(np.int64) + run.output_tokens
        blocks = tokens // size if size else np.zeros(len(tokens), np.int64)
        ends = np.concatenate([[0], np.cumsum(blocks)]).astype(np.int64)
        return cls(
            arrival_ps=np.round(run.arrival_s * _PS).astype(np.int64),
            input_tokens=run.input_tokens,
            output_tokens=run.output_tokens,
            block_ptr=ends if size else np.zeros(0, np.int64),
            block_hash=np.arange(1, ends[-1] + 1, dtype=np.uint64),
            block_tokens=size,
            session=np.zeros(0, np.int64),
        )


def replay(setting: Setting, software: ServingSoftware) -> Replay:
    """Serves the requests of a run.

    The cache has the blocks that the engine counted, where the record has them; else those of the memory rule.

    Args:
        setting: The run.
        software: Constants of the engine on the device.

    Raises:
        InputError: Weights do not fit.
    """
    run, copies = setting.run, setting.copies
    cost = (copy_cost if copies > 1 else iteration_cost)(
        setting.model,
        setting.layout,
        setting.machine,
        software,
        max_batched_tokens=run.max_batched_tokens,
    )
    room = setting.room(cost.state_tokens)
    pool = Pool(
        name=run.name,
        cost=Cost.of(cost),
        replicas=run.dp,
        lockstep=copies,
        block_tokens=run.block_tokens,
        kv_blocks=run.blocks or int(room.tokens) // run.block_tokens,
        max_sequences=room.sequences,
        max_batched_tokens=run.max_batched_tokens,
        prefix_cache=run.prefix_cache,
        ahead=run.ahead,
    )
    asked = _Asked.of(run)
    found = simulate(asked, Deployment((pool,), Router("least-loaded"), stop_on_overload=False))
    later = np.maximum(run.output_tokens - 1, 1)
    first_ps = found.column("first_token_ps")
    answered = (found.end_ps - first_ps) / _PS
    return Replay(
        ttft_s=(first_ps - asked.arrival_ps) / _PS,
        tpot_s=np.where(run.output_tokens > 1, answered / later, np.nan),
        preemptions=int(found.column("preemptions").sum()),
        end_s=float(found.end_ps.max()) / _PS,
    )


def distance(one: F, other: F) -> float:
    """Kolmogorov-Smirnov distance of two samples: the largest gap between their distribution functions."""
    first, second = np.sort(one[np.isfinite(one)]), np.sort(other[np.isfinite(other)])
    if not first.size or not second.size:
        return float("nan")
    at = np.concatenate([first, second])
    below = np.searchsorted(first, at, "right") / first.size - np.searchsorted(second, at, "right") / second.size
    return float(np.abs(below).max())
