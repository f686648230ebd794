"""Copies of a model whose experts are spread over all of them: each schedules for itself, and they iterate in lockstep.

Engines run such copies (vLLM's data-parallel ranks with expert parallelism) as schedulers of their own, with their own
queue and cache. Every layer with experts makes them meet, so an iteration takes

    T = max over copies of (host + attention, matrices, passes and kernels of its tokens) + J(tokens of all)

with J the experts and the collectives. A copy without requests takes part with a batch of nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.layout import Deployments
from railyard.work.serving.software import columns

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.model.machine import Machine
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.software import ServingSoftware


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
        parts(rows, columns([software]), IterationLoad(each[:, np.newaxis].astype(np.float64), none, none, none))
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
