"""Drafters of speculative decoding: how often they are right, what a pass of them takes, and what they hold in memory.

A drafter is a layer of the model's own checkpoint for multi-token prediction, a head with weights of its own (EAGLE-3),
or something elsewhere of which only the time is known. The model checks all guesses of a sequence at once: keys and
values are read once, and looked at by one query for each guess and one for the model's own token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Speculative
from railyard.engine.serving.deployment import acceptance_of, accepted_tokens
from railyard.kit.errors import InputError, keyed
from railyard.model.machine import Machine
from railyard.work.serving.cost import slopes
from railyard.work.serving.layout import Deployments
from railyard.work.serving.memory import state_tokens, tokens_left, weight_bytes
from railyard.work.serving.software import ServingSoftwareColumns

if TYPE_CHECKING:
    from railyard.catalog import Drafter, Model
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import SpeculativeSection
    from railyard.work.serving.software import ServingSoftware

_OWN_BYTES = 2.0
"""Of a weight of a drafter with weights of its own: published heads are in 16 bits."""

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
