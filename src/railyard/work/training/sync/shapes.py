"""The matrices of which a rank's gradients are made, for schemes that work on matrices."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from railyard.graph import CollectiveKind
from railyard.work.training import parameters
from railyard.work.training.spec import Layout
from railyard.work.training.sync.wire import Bundle, KernelWork, Leg, Matrix, Peers, Reduction, Round

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.work.training.spec import Training
    from railyard.work.training.sync.wire import Sparse


_INDEX_BYTES = 4.0


def table(training: Training, sparse: Sparse, peers: Peers) -> Reduction:
    """What one rank's touched rows of the table take: gathered with their numbers, added one by one."""
    model, layout = training.model, training.layout
    tokens = layout.replica_batch * training.seq_len / layout.cp
    rows = sparse.rows(tokens, model.vocab) / layout.tp
    each = rows * (model.hidden * training.software.gradient_bytes + _INDEX_BYTES)
    return Reduction(
        (Round(KernelWork(2.0 * each, 0.0, 2.0), (Leg(CollectiveKind.ALL_GATHER, peers.ranks * each),)),),
        KernelWork(3.0 * peers.ranks * each, 0.0, 1.0),
    )


def without_table(training: Training, count: float) -> float:
    """Parameters of a rank that holds the table, without it."""
    return max(0.0, count - parameters.embedding(training.model, training.layout))


def attention_matrices(model: Model, tp: int) -> list[Matrix]:
    """Matrices of one layer's attention, split over tensor-parallel ranks by heads."""
    hidden, latent = model.hidden, model.mla
    if latent is None:
        query, keys = model.heads * model.head_dim / tp, 2.0 * model.kv_heads * model.head_dim / tp
        return [Matrix(hidden, query + keys), Matrix(query, hidden)]
    heads = model.heads / tp
    found = [
        Matrix(hidden, latent.kv_lora + latent.rope_dim),
        Matrix(latent.kv_lora, heads * (latent.nope_dim + latent.v_dim)),
        Matrix(heads * latent.v_dim, hidden),
    ]
    wide = heads * (latent.nope_dim + latent.rope_dim)
    if latent.q_lora:
        return [*found, Matrix(hidden, latent.q_lora), Matrix(latent.q_lora, wide)]
    return [*found, Matrix(hidden, wide)]


def mlp_matrices(hidden: int, ffn: float, count: float, *, gated: bool) -> list[Matrix]:
    """Up (and gate) and down of `count` feed-forward blocks."""
    if not ffn or not count:
        return []
    return [Matrix(hidden, ffn, count * (2.0 if gated else 1.0)), Matrix(ffn, hidden, count)]


def dense_matrices(model: Model, layout: Layout) -> tuple[Matrix, ...]:
    """Matrices of all parameters but the routed experts, on one tensor-parallel rank, all stages together."""
    tp = layout.tp
    plain = sum(kind.layers for kind in model.kinds if kind.plain)
    found = [Matrix(m.rows, m.columns, m.count * plain) for m in attention_matrices(model, tp) if plain]
    mixed = [kind for kind in model.kinds if not kind.plain and kind.mixer_parameters]
    found += [Matrix(model.hidden, kind.mixer_parameters / model.hidden / tp, kind.layers) for kind in mixed]
    for width in sorted({kind.ffn for kind in model.kinds}):
        count = sum(kind.layers for kind in model.kinds if kind.ffn == width)
        found += mlp_matrices(model.hidden, width / tp, count, gated=model.gated_mlp)
    if model.moe_layers:
        shared = model.shared_experts * (model.shared_ffn or model.moe_ffn) / tp
        found += mlp_matrices(model.hidden, shared, model.moe_layers, gated=model.gated_mlp)
        found.append(Matrix(model.hidden, model.experts, model.moe_layers))
    tables = 1 if model.tied_embeddings and layout.pp == 1 else 2
    return (*found, Matrix(model.vocab / tp, model.hidden, tables))


def expert_matrices(model: Model, layout: Layout) -> tuple[Matrix, ...]:
    """Matrices of the routed experts that one rank holds, all stages together."""
    if not model.experts:
        return ()
    count = model.moe_layers * model.experts / layout.ep
    outer, width = model.expert_dim or model.hidden, model.moe_ffn / layout.expert_tp
    return tuple(mlp_matrices(outer, width, count, gated=model.gated_mlp))


@lru_cache(maxsize=256)
def _described(model: Model, layout: Layout, name: str) -> tuple[tuple[Matrix, ...], float]:
    """The matrices of a holding and how many parameters it has, over all stages."""
    if name == "expert":
        matrices = expert_matrices(model, layout)
        return matrices, parameters.layer_expert(model, layout) * model.moe_layers if model.experts else 0.0
    matrices = dense_matrices(model, layout)
    plain = model.layers - model.moe_layers
    plain_count = plain * parameters.layer_dense(model, layout) + parameters.embedding(model, layout)
    plain_count += parameters.head(model, layout)
    if model.moe_layers:
        plain_count += model.moe_layers * parameters.layer_moe_dense(model, layout)
    inside = sum(m.rows * m.columns * m.count for m in matrices)
    return matrices, max(plain_count, inside)


def bundle(training: Training, name: str, count: float) -> Bundle:
    """So many parameters of a holding (`dense` or `expert`), made of matrices in the model's own proportions."""
    # Shapes know nothing of replicas and batches: layouts that differ in those alone are described once.
    layout = training.layout
    split = Layout(global_batch=1, tp=layout.tp, pp=layout.pp, ep=layout.ep, expert_tp=layout.expert_tp)
    matrices, plain = _described(training.model, split, name)
    return Bundle(count, matrices, plain, float(training.software.gradient_bytes))


def workers_of(training: Training) -> int:
    """Groups of replicas that step by themselves; 1 where all replicas meet in every step."""
    asked = training.communication
    updates = None if asked is None else asked.meets()
    if updates is None:
        return 1
    return max(1, updates.workers or training.layout.dp)


def worker_layout(layout: Layout, workers: int) -> Layout:
    """The layout of one of so many workers."""
    if workers == 1:
        return layout
    dp = max(1, layout.dp // workers)
    return layout.replace(
        dp=dp,
        global_batch=max(1, layout.global_batch // workers),
        fsdp_shard=min(layout.fsdp_shard, dp * layout.cp),
    )


def worker_job(training: Training) -> Training:
    """What one worker does between two meetings; the job itself where there is one worker."""
    workers = workers_of(training)
    return training if workers == 1 else training.replace(layout=worker_layout(training.layout, workers))


def replica_peers(layout: Layout, name: str, domain: int) -> Peers:
    """Ranks that hold the same parameters of a holding (`dense` or `expert`)."""
    stride = layout.ep * layout.expert_tp if name == "expert" else layout.tp
    ranks = (
        max(1, layout.edp) if name == "expert" else layout.shard_ranks if layout.zero == 3 else layout.dp * layout.cp
    )
    return Peers(ranks, local_ranks(ranks, stride, domain), layout.zero >= 1)


def local_ranks(ranks: int, stride: int, domain: int) -> int:
    """Members of a group inside one scale-up domain: as many as fit and divide the group."""
    fit = min(ranks, max(1, domain // stride))
    return next(n for n in range(fit, 0, -1) if ranks % n == 0)


def kept_bytes(training: Training, name: str, domain: int) -> float:
    """Bytes that a rank keeps for each parameter of a holding, beyond parameters, gradients and optimizer.

    Args:
        training: The whole job.
        name: `dense` or `expert`.
        domain: Ranks of a scale-up domain.
    """
    asked = training.communication
    if asked is None or (name == "expert" and not training.model.experts):
        return 0.0
    layout = worker_layout(training.layout, workers_of(training))
    peers, total = replica_peers(layout, name, domain), 0.0
    if asked.compression is not None:
        total += asked.compression.state_bytes(bundle(training, name, 1.0), peers)
    updates = asked.meets()
    if updates is not None:
        total += updates.state_bytes / peers.ranks
    if asked.asynchronous is not None:
        total += training.software.gradient_bytes * asked.asynchronous.late_steps
    return total
