"""What each sequence, cached token and pair adds to an iteration, read off the law of `iteration`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.iteration import IterationLoad, parts

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.serving.columns import Deployments
    from railyard.work.serving.software import ServingSoftwareColumns

# Cached tokens, and query and key pairs, at which attention has left its fixed parts behind.
_MANY = 1e7
_SEQUENCES = 512.0


@dataclass(frozen=True, slots=True)
class IterationSlopes:
    """Seconds of all layers, one row a replica.

    Attributes:
        kv_token_s: Of each cached token that decoding reads.
        sequence_s: Of each sequence that decodes, beside its cached tokens.
        pair_s: Of each query and key pair of a prompt.
        logits_s: Of each sequence's row of the output projection.
    """

    kv_token_s: F
    sequence_s: F
    pair_s: F
    logits_s: F


def slopes(rows: Deployments, software: ServingSoftwareColumns) -> IterationSlopes:
    """Slopes of an iteration of each replica.

    Args:
        rows: The replicas.
        software: Constants, as many rows.
    """
    none, one = np.zeros_like(rows.layout.tp), np.ones_like(rows.layout.tp)
    first, second = (
        parts(rows, software, IterationLoad(one, one, count * one, none)).cache for count in (_MANY, 2.0 * _MANY)
    )
    each = (second - first) / _MANY
    bare, full = (parts(rows, software, IterationLoad(one, n * one, none, none)).matrices for n in (0.0, _SEQUENCES))
    return IterationSlopes(
        kv_token_s=each,
        sequence_s=np.maximum(first - each * _MANY, 0.0),
        pair_s=parts(rows, software, IterationLoad(one, none, none, _MANY * one)).prompt / _MANY,
        logits_s=(full - bare) / _SEQUENCES,
    )
