"""Constants of a serving engine on a device architecture, as columns and as one profile.

A profile says how near to the device's own rates an engine's kernels come, what each layer and each iteration costs
beside its bytes and FLOPs, and whether prompts share iterations with decoding. The profiles are data, see `profiles`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.model.columns import F


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSoftware:
    """One engine on one architecture. Fractions are of the device's best measured rate, times are seconds.

    Attributes:
        name, architecture, source: Which engine, where, and where its constants come from.
        weights_fraction: Of the memory rate, reading the weights of dense matrices.
        narrow_fraction: Of that rate, what dense weights of 8 bits reach.
        expert_fraction: The same for routed experts, of which a batch touches many small ones.
        gemm_fraction, grouped_fraction: Of the matrix rate, dense and grouped.
        expert_rows: Rows whose time each expert's product loses, with tiles of 128; an eighth with those of 16 bits.
        kv_fraction: Of the memory rate, reading the cache.
        attention_fraction: Of the attention rate, prompts.
        latent_fraction: Of the 16-bit matrix rate, latent attention in decoding.
        pass_bytes: Memory traffic of norms, activations and casts, for each element of the residual in each layer.
        layer_s: Kernels of a layer, without their bytes and FLOPs.
        moe_layer_s: More of them in a layer with experts: router, permutation, quantisation.
        latent_layer_s: More of them in a layer with latent attention.
        index_layer_s: More of them in a layer whose keys an index picks.
        reduce_s, reduce_fraction: An all-reduce of few bytes; of the link rate that many bytes reach.
        exchange_s, exchange_fraction: The same for the dispatch or combine of experts.
        host_s, host_per_sequence_s: Scheduler, sampling, detokenizing: of an iteration, of a sequence in it.
        prompt_s: Arrival and first schedule of a request.
        prompt_token_s: Tokenizer, and hand-over to the engine, of each token of its prompt.
        prompt_layer_s, prompt_latent_s: Launches of the kernels of an iteration with prompts, which no graph holds: of
            any layer, and more of a latent one.
        skew: Tokens of the busiest rank of experts, over the mean.
        wave_share, split_wave_share: Of the time that the prompts of all users take, what one of them waits in a closed
            loop; the same where prompts have replicas of their own.
        handover_s: From a prompt's last key to its sequence in a replica that decodes, beside the bytes on the way.
        acceptance: Chance that a drafted token is taken when those before it were.
        prompt_share: Of a prompt's cost alone that an iteration with decoding takes more for it.
    """

    name: str
    architecture: str = ""
    source: str = ""
    weights_fraction: float = 0.85
    narrow_fraction: float = 1.0
    expert_fraction: float = 0.7
    gemm_fraction: float = 0.8
    grouped_fraction: float = 0.5
    expert_rows: float = 64.0
    kv_fraction: float = 0.7
    attention_fraction: float = 0.7
    latent_fraction: float = 0.7
    pass_bytes: float = 40.0
    layer_s: float = 20e-6
    moe_layer_s: float = 20e-6
    latent_layer_s: float = 15e-6
    index_layer_s: float = 40e-6
    reduce_s: float = 8e-6
    reduce_fraction: float = 0.7
    exchange_s: float = 25e-6
    exchange_fraction: float = 0.6
    host_s: float = 1e-3
    host_per_sequence_s: float = 5e-6
    prompt_s: float = 30e-3
    prompt_token_s: float = 4e-6
    prompt_layer_s: float = 0.3e-3
    prompt_latent_s: float = 0.8e-3
    skew: float = 1.3
    prompt_share: float = 1.0
    wave_share: float = 0.1
    split_wave_share: float = 0.2
    handover_s: float = 60e-3
    acceptance: float = 0.6


CONSTANTS = tuple(field.name for field in fields(ServingSoftware) if field.type == "float")


@dataclass(frozen=True, slots=True)
class ServingSoftwareColumns:
    """The constants of `ServingSoftware`, one row a deployment."""

    weights_fraction: F
    narrow_fraction: F
    expert_fraction: F
    gemm_fraction: F
    grouped_fraction: F
    expert_rows: F
    kv_fraction: F
    attention_fraction: F
    latent_fraction: F
    pass_bytes: F
    layer_s: F
    moe_layer_s: F
    latent_layer_s: F
    index_layer_s: F
    reduce_s: F
    reduce_fraction: F
    exchange_s: F
    exchange_fraction: F
    host_s: F
    host_per_sequence_s: F
    prompt_s: F
    prompt_token_s: F
    prompt_layer_s: F
    prompt_latent_s: F
    skew: F
    prompt_share: F
    wave_share: F
    split_wave_share: F
    handover_s: F
    acceptance: F


def columns(profiles: Sequence[ServingSoftware]) -> ServingSoftwareColumns:
    """One row a profile."""
    return ServingSoftwareColumns(*(np.array([getattr(known, name) for known in profiles]) for name in CONSTANTS))
