"""Constants of the first token, fitted on what the serving engine leaves of it.

A request's wait and its prompt come from the engine, request by request; what is left of a measured time to the first
token is its arrival (tokenizer, launches) and what holds it back before copies of attention. The shares of a wave that
the closed form knows are fitted after that, so that both say the same of the same load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import take
from railyard.workload.serving.software import CONSTANTS
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.model import part
from railyard_validation.serving.queue import runs, served
from railyard_validation.serving.states import first_token_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.workload.serving.software import ServingSoftwareColumns
    from railyard_validation.serving.fit import Design, Misses
    from railyard_validation.serving.model import Table
    from railyard_validation.serving.queue import Queued

    F = NDArray[np.float64]

ARRIVAL = ("prompt_s", "prompt_layer_s", "prompt_latent_s", "copies_wait")
WAVES = ("wave_share", "split_wave_share")


def first_tokens(rows: Table, made: Design, effects: F) -> F:
    """Effects[constant, level] with those of the first token fitted anew.

    Args:
        rows: Closed loops that publish a time to the first token.
        made: Their levels.
        effects: Of all constants.
    """
    ran = np.flatnonzero([runs(case) for case in rows.cases])
    queued = served(rows, fitting.software(effects, made), ran)
    some, own = part(rows, ran), made.rows(ran)
    start = effects.copy()
    start[[CONSTANTS.index(name) for name in ARRIVAL]] = 0.0
    found = fitting.fit(own, _misses(some, take(queued, ran)), start, ARRIVAL, weight=fitting.trust(some.cases))
    return fitting.fit(made, fitting.ttft_misses(rows), found, WAVES, weight=fitting.trust(rows.cases))


def _misses(rows: Table, queued: Queued) -> Misses:
    measured = np.log([case.row.real["ttft_ms"] / 1e3 for case in rows.cases])

    def misses(known: ServingSoftwareColumns) -> F:
        return np.log(first_token_s(rows, known, queued)) - measured

    return misses
