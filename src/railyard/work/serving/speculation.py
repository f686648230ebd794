"""What it takes to guess a token: as the scenario says, or what the model's own layer for it takes.

A layer for multi-token prediction stands behind the last one and shares the output head (DeepSeek-V3, arXiv 2412.19437,
section 2.2): a pass is its share, head included, of the parameters that an iteration runs through, of the time of an
iteration of one token for each of `max_sequences` sequences, without the host's part. A full batch errs on the slow
side: few sequences touch fewer experts. The layer's own look at the cache is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.work.serving.cost import IterationCost


def pass_share(model: Model) -> float:
    """Share of one pass of a layer for multi-token prediction, head included, of all layers with the head.

    Args:
        model: That guesses for itself.

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


def pass_s(model: Model, cost: IterationCost, sequences: int) -> float:
    """Time in which a model's own layer guesses one token for each of so many sequences, seconds.

    Args:
        model: That guesses for itself.
        cost: An iteration of its replica.
        sequences: Of a full batch.

    Raises:
        InputError: The model has no such layer.
    """
    times = np.interp(float(sequences), cost.tokens, cost.compute_s + cost.network_s)
    return float(times) * pass_share(model)
