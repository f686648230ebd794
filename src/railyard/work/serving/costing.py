"""What an iteration of each pool's replicas costs, and drafters of speculative decoding; errors name the pool's place.

A drafter is a layer of the model's own checkpoint for multi-token prediction, a head with weights of its own (EAGLE-3),
or something elsewhere of which only the time is known. The model checks all guesses of a sequence at once: keys and
values are read once, and looked at by one query for each guess and one for the model's own token.

Copies of a model whose experts are spread over all of them: each schedules for itself, and they iterate in lockstep.

Engines run such copies (vLLM's data-parallel ranks with expert parallelism) as schedulers of their own, with their own
queue and cache. Every layer with experts makes them meet, so an iteration takes

    T = max over copies of (host + attention, matrices, passes and kernels of its tokens) + J(tokens of all)

with J the experts and the collectives. A copy without requests takes part with a batch of nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Speculative
from railyard.engine.serving.deployment import acceptance_of, accepted_tokens
from railyard.kit.errors import InputError, keyed
from railyard.model.machine import Machine
from railyard.work.serving.afd import Side, apart_cost, exchange_of
from railyard.work.serving.cost import iteration_cost, slopes
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments
from railyard.work.serving.links import rates
from railyard.work.serving.memory import state_tokens, tokens_left, weight_bytes
from railyard.work.serving.software import ServingSoftwareColumns, profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Drafter, Model
    from railyard.cluster import Cluster
    from railyard.graph.request_table import RequestTable
    from railyard.work.serving.afd import SideExchange
    from railyard.work.serving.cost import IterationCost, Role
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.networks import ServingNetworks
    from railyard.work.serving.placing import Ffn, PlacedPool
    from railyard.work.serving.section import SpeculativeSection
    from railyard.work.serving.software import Profiles, ServingSoftware
    from railyard.work.study.provenance import Memo


_OWN_BYTES = 2.0
"""Bytes of a weight of a drafter with weights of its own: published heads are in 16 bits."""

_LEAST_CONTEXT = 2048.0
"""Tokens of a sequence for which a replica has room at least."""


def drafter_of(guess: SpeculativeSection, pool: PlacedPool, model: Model) -> Drafter | None:
    """The catalogue's drafter of a method for a model; None where no method is named.

    Raises:
        InputError: The catalogue has none of that method for the model; with the nearest.
    """
    if guess.method is None:
        return None
    with keyed("speculative.method"):
        return pool.cluster.catalog.drafter(f"{guess.method}-{model.name}")


def length_at(drafter: Drafter, tokens: int) -> float:
    """Tokens of a pass in the mean when a drafter guesses so many ahead.

    With p the chance of the first guess and r that by which each later one is less likely to be right than the one
    before it, 1 + p (1 + r + ... + r^(k - 1)); p = r where the first one's chance was not published.

    Args:
        drafter: Of the catalogue, measured at one length of its chains.
        tokens: Guessed ahead, k.
    """
    if not drafter.first:
        return float(accepted_tokens(acceptance_of(drafter.length, drafter.tokens), tokens))
    less = acceptance_of((drafter.length - 1.0) / drafter.first, drafter.tokens - 1)
    return 1.0 + drafter.first * float(accepted_tokens(less, tokens - 1))


def pass_share(model: Model) -> float:
    """Share of one pass of a layer for multi-token prediction, head included, of all layers with the head.

    Raises:
        InputError: The model has no such layer.
    """
    if not model.mtp_layers:
        raise InputError(
            f"{model.name} has no layer that guesses tokens: say how long a pass of the draft model takes",
            key="speculative.draft",
        )
    head = float(model.vocab * model.hidden)
    layers = model.parameters() - model.embedding_parameters() - model.head_parameters()
    return (model.mtp_parameters() / model.mtp_layers + head) / (layers + head)


def speculative(pool: PlacedPool, cost: IterationCost, model: Model) -> Speculative | None:
    """How a pool's replicas guess; None where they do not.

    A pass takes the drafter's share of an iteration of a full batch: by parameters for the model's own layer, by bytes
    for weights of another width.

    Raises:
        InputError: No drafter of the method is known for the model, or nobody says what a pass takes.
    """
    guess = pool.section.speculative
    if guess is None:
        return None
    with keyed(f"pools.{pool.role}"):
        drafter = drafter_of(guess, pool, model)
        draft_s = _pass_s(guess, drafter, pool, cost, model)
    length = guess.length
    if length is None and guess.acceptance is None and drafter is not None:
        length = length_at(drafter, guess.tokens)
    acceptance = guess.acceptance if length is None else acceptance_of(length, guess.tokens)
    return Speculative(guess.tokens, acceptance or 0.0, draft_s)


def _pass_s(
    guess: SpeculativeSection, drafter: Drafter | None, pool: PlacedPool, cost: IterationCost, model: Model
) -> float:
    """Seconds in which one token is guessed for each sequence of a full batch."""
    if guess.draft is not None:
        return guess.draft
    if drafter is not None and drafter.parameters:
        rows = Deployments.of((model, pool.layout, Machine.of(pool.cluster)))
        share = _held_bytes(drafter, rows, model) / float(weight_bytes(rows)[0])
    else:
        share = pass_share(model)
    batch = float(pool.section.max_sequences)
    return float(np.interp(batch, cost.tokens, cost.compute_s + cost.network_s)) * share


def _held_bytes(drafter: Drafter | None, rows: Deployments, model: Model) -> float:
    """Weights of the drafter on one rank: split as the model's dense weights and its experts are."""
    layout = rows.layout
    if drafter is not None and drafter.parameters:
        return _OWN_BYTES * drafter.parameters / float(layout.tp[0])
    routed = float((rows.model.experts * rows.model.expert_parameters)[0]) * model.mtp_layers
    dense = (model.mtp_parameters() - routed) * layout.dense_bits / layout.tp
    return float(((dense + routed * layout.expert_bits / (layout.expert_tp * layout.ep)) / 8.0)[0])


def with_drafter(pool: PlacedPool, cost: IterationCost, model: Model, software: ServingSoftware) -> IterationCost:
    """The cost of a replica that guesses: more queries of each sequence, and what the drafter holds in memory.

    The drafter's weights and its layer of the cache take room; of a replica whose FFNs are on other accelerators they
    are on those of attention. A drafter of which only the time is known (`draft` without a `method`) is elsewhere.

    Args:
        pool: The pool as placed on the cluster.
        cost: Of a replica that does not guess; with separate FFNs its attention has the queries already.
        model: The model that answers.
        software: Constants of the engine on the pool's accelerators.

    Raises:
        InputError: The drafter leaves no room for a sequence.
    """
    guess = pool.section.speculative
    if guess is None or pool.role == "prefill":
        return cost
    rows = Deployments.of((model, pool.layout, Machine.of(pool.cluster)))
    if pool.ffn is None:
        constants = ServingSoftwareColumns([software])
        one, checked = (slopes(rows, constants, queries) for queries in (1.0, 1.0 + guess.tokens))
        cost = replace(
            cost,
            attention_per_kv_token_s=float(checked.kv_token_s[0]),
            attention_per_sequence_s=float(checked.sequence_s[0]),
            host_per_seq_s=cost.host_per_seq_s + float((checked.logits_s - one.logits_s)[0]),
        )
    if guess.method is None and guess.draft is not None:
        return cost
    drafter = drafter_of(guess, pool, model)
    if drafter is None or not drafter.parameters:
        pass_share(model)
    held = _held_bytes(drafter, rows, model)
    left = tokens_left(rows, cost.kv_capacity_tokens, held, 1)
    if left - float(state_tokens(rows)[0]) < _LEAST_CONTEXT:
        raise InputError(
            f"the drafter of {model.name} takes {held / 2**30:.1f} GiB of a rank and leaves room for {left:,.0f} cached"
            f" tokens, fewer than one sequence of {_LEAST_CONTEXT:,.0f} has",
            key="speculative",
        )
    return replace(cost, kv_capacity_tokens=left, weight_bytes=cost.weight_bytes + held * pool.layout.ranks)


def copy_cost(
    model: Model,
    layout: ServingLayout,
    machine: Machine,
    software: ServingSoftware,
    *,
    max_batched_tokens: int = 8192,
) -> IterationCost:
    """What an iteration of one copy costs, `layout.dp_attention` of which go in lockstep.

    All-reduces of a copy's tensor-parallel ranks are among the collectives of all, as of copies with as many tokens.

    Args:
        model: Of the catalogue.
        layout: Of all copies together.
        machine: Its accelerators, scale-up domain and the rate of a rank's NIC.
        software: Constants of the engine on that device.
        max_batched_tokens: Most tokens of an iteration of one copy.

    Raises:
        InputError: Weights and a cache of one sequence do not fit; the message has the table and layouts that fit.
    """
    copies = layout.dp_attention
    most = max_batched_tokens * copies
    together = iteration_cost(model, layout, machine, software, max_batched_tokens=most)
    rows, none = Deployments.of((model, layout, machine)), np.zeros(1)
    tokens = np.unique(together.tokens // copies)
    tokens = tokens[tokens > 0]
    alone, joint = (
        parts(
            rows,
            ServingSoftwareColumns([software]),
            IterationLoad(each[:, np.newaxis].astype(np.float64), none, none, none),
        )
        for each in (tokens * copies, together.tokens)
    )
    return replace(
        together,
        tokens=tokens,
        compute_s=(alone.matrices + alone.passes + alone.kernels)[:, 0],
        network_s=np.zeros(len(tokens)),
        hidden_s=alone.hidden[:, 0],
        joint_tokens=together.tokens,
        joint_compute_s=joint.experts[:, 0],
        joint_network_s=joint.network[:, 0],
        host_per_seq_s=together.host_per_seq_s * copies,
        attention_per_kv_token_s=together.attention_per_kv_token_s * copies,
        attention_per_sequence_s=together.attention_per_sequence_s * copies,
        attention_per_pair_s=together.attention_per_pair_s * copies,
        idle_w=together.idle_w / copies,
        busy_w=together.busy_w / copies,
        kv_capacity_tokens=together.kv_capacity_tokens / copies,
        weight_bytes=together.weight_bytes / copies,
        scale_out_bytes_per_token=0.0,
        scale_out_bps=0.0,
        scale_out_slack_s=np.zeros(0),
    )


def costs_of(
    model: Model,
    networks: ServingNetworks,
    pools: tuple[PlacedPool, ...],
    software: tuple[ServingSoftware, ...],
    *,
    requests: RequestTable,
    memo: Memo,
    profiles: Profiles | None = None,
) -> tuple[IterationCost, ...]:
    """The cost of an iteration of a replica of each pool.

    Args:
        model: Of the catalogue.
        networks: That the pools lie on.
        pools: On the cluster.
        software: Of each pool's accelerators; of those of attention where FFNs have their own.
        requests: Their mean length says how long a usual sequence is.
        memo: What other variants have made.
        profiles: Constants of a user's, for the accelerators of separate FFNs.

    Raises:
        InputError: A pool's degrees do not divide the model, or its replica does not fit; with the table why, and what
            fits.
    """
    found = []
    for pool, constants in zip(pools, software, strict=True):
        try:
            _divides(model, pool)
            if pool.ffn is None:
                replica = (model, pool.cluster, pool.layout, constants)
                most = pool.section.max_batched_tokens
                prompt = float(np.mean(requests.input_tokens))
                cost = cost_of(*replica, most=most, prompt=prompt, memo=memo, role=pool.role)
                found.append(with_drafter(pool, cost, model, constants))
                continue
            sides = _sides(model, pool, pool.ffn, constants, profiles)
            skew = sides[1].software.skew if model.experts else 1.0
            cluster, start = networks.clusters[pool.home], networks.offsets[pool.home]
            rate = rates(networks, pools)[start : start + len(cluster.links)]
            exchange = exchange_of(cluster, (pool.ranks, pool.ffn.ranks), rate, _weights(sides[1], skew))
            found.append(with_drafter(pool, _separate_ffn(model, pool, sides, exchange, requests), model, constants))
        except InputError as error:
            raise InputError.many(
                replace(problem, key=".".join(filter(None, ("pools", pool.role, _key(problem.key)))))
                for problem in error.problems
            ) from None
    return tuple(found)


def _divides(model: Model, pool: PlacedPool) -> None:
    """Refuses degrees that no engine takes: whole heads stay together, and each stage has a layer.

    Fewer heads of keys and values than ranks are copied, so either number has to divide the other (vLLM,
    `ModelConfig.verify_with_parallel_config` and `QKVParallelLinear`).
    """
    layout, key = pool.layout, "tp" if pool.ffn is None else "attention.tp"
    if model.heads % layout.tp or (model.mla is None and model.kv_heads % layout.tp and layout.tp % model.kv_heads):
        what = f"the {model.heads} attention heads and {model.kv_heads} heads of keys and values of {model.name}"
        raise InputError(
            f"tp {layout.tp} does not divide {what}", key=key, found=layout.tp, allowed=_degrees(model, 4 * layout.tp)
        )
    if layout.pp > model.layers:
        raise InputError(
            f"pp {layout.pp} is more than the {model.layers} layers of {model.name}", key="pp", found=layout.pp
        )
    if pool.ffn is None and layout.ep > 1 and not model.experts:
        raise InputError(f"{model.name} has no experts to spread", key="ep", found=layout.ep, allowed="1")


def _degrees(model: Model, most: int) -> str:
    fit = (n for n in range(1, most + 1) if model.heads % n == 0)
    return ", ".join(str(n) for n in fit if model.mla or model.kv_heads % n == 0 or n % model.kv_heads == 0)


def _key(key: str | None) -> str | None:
    """A layout is the pool's keys themselves."""
    return None if key == "layout" else key


def cost_of(
    model: Model,
    cluster: Cluster,
    layout: ServingLayout,
    software: ServingSoftware,
    *,
    most: int,
    memo: Memo,
    prompt: float = 1024.0,
    role: Role = "decode",
) -> IterationCost:
    """The cost of an iteration of one replica, made once for all variants."""
    of = (model, layout, Machine.of(cluster), software)

    def made() -> IterationCost:
        return iteration_cost(*of, max_batched_tokens=most, prompt_tokens=prompt, role=role)

    cost: IterationCost = memo.get("cost", [repr(of), most, prompt, role], made)
    return cost


def _sides(
    model: Model, pool: PlacedPool, ffn: Ffn, software: ServingSoftware, profiles: Profiles | None
) -> tuple[Side, Side]:
    groups = ffn.layout.ep
    if model.experts and model.experts % groups:
        raise InputError(
            f"{groups} groups do not divide the {model.experts} experts of {model.name}",
            key="ffn.ep",
            found=groups,
            allowed=f"a divisor of {model.experts}",
        )
    device = ffn.cluster.accelerator
    guess = pool.section.speculative
    one = Side(Machine.of(pool.cluster), pool.layout, software, 1.0 if guess is None else 1.0 + guess.tokens)
    return one, Side(Machine.of(ffn.cluster), ffn.layout, profile(software.name, device, profiles=profiles))


def _weights(side: Side, skew: float) -> NDArray[np.float64]:
    """Share of the tokens that each FFN accelerator takes; the busiest group of experts has `skew` times the mean."""
    groups, each = side.layout.ep, side.layout.tp
    most = min(skew, float(groups))
    rest = [] if groups == 1 else [(groups - most) / (groups - 1)] * (groups - 1)
    return np.repeat([most, *rest], each) / (groups * each)


def _separate_ffn(
    model: Model, pool: PlacedPool, sides: tuple[Side, Side], exchange: SideExchange, requests: RequestTable
) -> IterationCost:
    return apart_cost(
        model,
        *sides,
        exchange,
        micro_batches=pool.section.micro_batches,
        max_batched_tokens=pool.section.max_batched_tokens,
        context=float(requests.input_tokens.mean() + requests.output_tokens.mean() / 2),
    )
