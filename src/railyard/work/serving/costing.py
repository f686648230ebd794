"""What an iteration of each pool's replicas costs; errors get the pool's place in the scenario.

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

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.serving.afd import Side, apart_cost, exchange_of
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.drafting import with_drafter
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments
from railyard.work.serving.links import rates
from railyard.work.serving.software import ServingSoftwareColumns, profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.graph.request_table import RequestTable
    from railyard.work.serving.afd import SideExchange
    from railyard.work.serving.cost import IterationCost, Role
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.networks import ServingNetworks
    from railyard.work.serving.placing import Ffn, PlacedPool
    from railyard.work.serving.software import Profiles, ServingSoftware
    from railyard.work.study.provenance import Memo


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
