"""Constants of serving engines from measured rows.

The effects that are free (`railyard.work.serving.software.free_effects`) minimise

    sum_rows weight * huber(log(predicted / measured) / 0.08) + sum_effects (effect / spread)^2

(`railyard_validation.robust`) over seconds a token and seconds to the first token at once. Predicted is the closed form
of the steady state times what the serving engine finds beside it, request by request: the queue, which is counted once,
with the constants as stated before any fit, so that no row's answer is in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.work.serving.software import (
    CONSTANTS,
    LEVEL_SPREAD,
    ServingSoftware,
    ServingSoftwareColumns,
    constants,
    free_effects,
    levels,
)
from railyard_validation import robust
from railyard_validation.serving.cases import drawn
from railyard_validation.serving.model import part, steady
from railyard_validation.serving.settings import cold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard_validation.serving.cases import Case
    from railyard_validation.serving.model import Table
    from railyard_validation.serving.states import States

    F = NDArray[np.float64]
    Whole = NDArray[np.int64]

# Relative error of a row that measurement and missing detail leave.
_ROW_SPREAD = 0.08
_HUBER = 1.5
# A first token also tells how fast prompts are, but its queue is known less well than an iteration.
_FIRST_WEIGHT = 0.3
# Without requests ahead of them the first ones meet kernels that are compiled or chosen just then (`settings.cold`).
_COLD_WEIGHT = 0.2
# Two first tokens measured under one label and version differ by 22 % where prompts have replicas of their own (98
# pairs), by 4 % on one server (86): 0.2 against the 0.08 of a row.
_SPLIT_WEIGHT = 0.15
# Rows of one engine, model, device and precision miss together, by some 20 %: a sweep counts once, however long it is,
# and all rows as if they were a tenth of their number.
_COUNTS = 0.1
_STEP = 1e-3
_ITERATIONS = 12
_PRECISION = 1e-4


@dataclass(frozen=True)
class Design:
    """Which effects make up the constants of which rows.

    Attributes:
        effects: Constant and level of each.
        member: [row, effect], 1 where a row belongs to the effect's level.
        known: [row, constant], what each is near to before any row is seen.
    """

    effects: tuple[tuple[str, str], ...]
    member: F
    known: F

    def rows(self, index: Whole) -> Design:
        """The design of some rows."""
        return replace(self, member=self.member[index], known=self.known[index])


def design(cases: tuple[Case, ...], effects: tuple[tuple[str, str], ...] | None = None) -> Design:
    """The effects of every row; those that are free, unless others are named."""
    free = free_effects() if effects is None else effects
    places = [(case.engine, case.device.architecture) for case in cases]
    member = np.array([[float(level in levels(*place)) for _, level in free] for place in places])
    near = {place: [constants()[name].at(*place) for name in CONSTANTS] for place in dict.fromkeys(places)}
    return Design(free, member, np.array([near[place] for place in places]))


def software(found: F, made: Design) -> ServingSoftwareColumns:
    """Constants of every row from the logarithms of the effects."""
    values = {}
    for column, name in enumerate(CONSTANTS):
        known = constants()[name]
        of = [number for number, (constant, _) in enumerate(made.effects) if constant == name]
        moved = made.member[:, of] @ found[of]
        values[name] = np.clip(made.known[:, column] * np.exp(moved), known.low, known.high)
    return ServingSoftwareColumns([ServingSoftware(name="")] * len(made.member)).replace(**values)


def from_known(made: Design, known: Mapping[str, Mapping[str, float]]) -> F:
    """Effects of a design, 0 where none is known."""
    return np.array([known.get(level, {}).get(name, 0.0) for name, level in made.effects])


def as_known(made: Design, found: F) -> dict[str, dict[str, float]]:
    """The same by level and constant."""
    by_level: dict[str, dict[str, float]] = {}
    for (name, level), value in zip(made.effects, found.tolist(), strict=True):
        by_level.setdefault(level, {})[name] = float(f"{value:.4g}")
    return by_level


def told_s(case: Case) -> float:
    """Seconds a token that a row tells, 0 where it does not.

    A unit that only decodes a batch of a given size, without drafts, tells it by its tokens/s. A pace that a unit is
    filled up to is no measurement.
    """
    if case.kind == "paced":
        return 0.0
    rate = case.row.real.get("out_tok_s_per_gpu", 0.0) * case.decode.ranks * case.decode.workers
    if case.kind == "decode" and rate and not case.drafts:
        return case.users / rate
    return case.row.real.get("tpot_ms", 0.0) / 1e3


def first_s(case: Case) -> float:
    """Seconds to the first token that a row of a closed loop tells, 0 where it does not."""
    return case.row.real.get("ttft_ms", 0.0) / 1e3 if case.kind in ("closed", "split") else 0.0


@dataclass(frozen=True)
class Evidence:
    """Rows with what they tell and what the queue makes of them.

    Attributes:
        rows: Table.
        queue: [2, row], seconds a token and to the first one that the engine finds over those of the closed form.
        told: [2, row], measured seconds, 0 where a row does not tell.
        weight: [2, row].
    """

    rows: Table
    queue: F
    told: F
    weight: F

    def part(self, index: Whole) -> Evidence:
        """Some rows."""
        return Evidence(part(self.rows, index), self.queue[:, index], self.told[:, index], self.weight[:, index])

    def misses(self, known: ServingSoftwareColumns) -> F:
        """Logarithms of predicted over measured, [2 x row]; 0 where a row does not tell."""
        seconds = np.zeros_like(self.told)
        for index, state in steady(self.rows, known).values():
            seconds[:, index] = state.tpot_s, state.ttft_s
        gone = (self.told <= 0) | ~(seconds > 0)
        ratio = np.where(gone, 1.0, seconds * self.queue / np.where(gone, 1.0, self.told))
        return np.log(ratio).ravel()


def evidence(rows: Table, queued: States, planned: States) -> Evidence:
    """What rows tell.

    Args:
        rows: Table.
        queued: What the serving engine makes of it.
        planned: What the closed form does, with the same constants.
    """
    found, stated = (np.stack([each.tpot_s, each.ttft_s]) for each in (queued, planned))
    known = np.isfinite(found) & (found > 0) & (stated > 0)
    queue = np.where(known, found, 1.0) / np.where(known, stated, 1.0)
    told = np.array([[told_s(case) for case in rows.cases], [first_s(case) for case in rows.cases]])
    known = np.array([_first_trust(case) for case in rows.cases])
    weight = trust(rows.cases) * np.stack([np.ones_like(known), _FIRST_WEIGHT * known]) * (told > 0)
    return Evidence(rows, queue, told, weight)


def _first_trust(case: Case) -> float:
    """How far a row's first token is to be believed, beside `trust`."""
    warm = _COLD_WEIGHT if drawn(case.row) and cold(case.row) else 1.0
    return warm * (_SPLIT_WEIGHT if case.prefill is not None else 1.0)


def trust(cases: tuple[Case, ...]) -> F:
    """Weight of a row in the fit: less where facts were assumed, least where a label leaves out what decides.

    The middle of a Poisson stream near saturation hangs on flags that its source does not name.
    """
    sweeps = [(case.engine, case.model.name, case.device.name, case.layout.precision) for case in cases]
    count = Counter(sweeps)
    known = [0.15 if case.drafting < 1.0 else (0.4 if case.defaults else 1.0) for case in cases]
    streams = [0.1 if case.kind == "open" else 1.0 for case in cases]
    weight = np.array(known) * streams / [float(count[sweep]) for sweep in sweeps]
    counted: F = weight * (_COUNTS * len(weight) / weight.sum())
    return counted


def fit(made: Design, seen: Evidence, *, start: F | None = None, iterations: int = _ITERATIONS) -> F:
    """Logarithms of the effects that minimise the misses, from `start` or the priors on."""
    spread = np.array([constants()[name].spread if level == "all" else LEVEL_SPREAD for name, level in made.effects])
    return robust.minimise(
        lambda found: seen.misses(software(found, made)),
        lambda found: _slopes(made, seen, found),
        robust.Priors(np.zeros(spread.size), spread),
        robust.Rows(_ROW_SPREAD, _HUBER, seen.weight.ravel()),
        start=start,
        iterations=iterations,
        precision=_PRECISION,
    )


def _slopes(made: Design, seen: Evidence, found: F) -> F:
    """Derivatives of the misses, [row, effect]: effects of all levels of a row move its constant alike."""
    known = software(found, made)
    at, each = seen.misses(known), {}
    for name in dict.fromkeys(name for name, _ in made.effects):
        moved = known.replace(**{name: getattr(known, name) * np.exp(_STEP)})
        each[name] = (seen.misses(moved) - at) / _STEP
    member = np.concatenate([made.member, made.member])
    return np.stack([each[name] * member[:, number] for number, (name, _) in enumerate(made.effects)], axis=1)


def left_out(
    seen: Evidence,
    by: Callable[[Case], str],
    cases: tuple[Case, ...],
    keep: Callable[[NDArray[Any], str], NDArray[np.bool_]] = np.not_equal,
    start: F | None = None,
) -> ServingSoftwareColumns:
    """Constants of cases, fitted from `start` on without the part of the rows that each belongs to.

    Args:
        seen: Rows and what they tell.
        by: The part of a case.
        cases: To be predicted; those of `seen` among them.
        keep: Which parts stand in the fit for a part: all others, or those before it.
        start: Where the fits begin: it saves time, and decides nothing.
    """
    made, wanted = design(seen.rows.cases), design(cases)
    names, parts = np.array([by(case) for case in seen.rows.cases]), np.array([by(case) for case in cases])
    found = software(np.zeros(len(wanted.effects)), wanted)
    for name in dict.fromkeys(parts.tolist()):
        kept, rest = np.flatnonzero(keep(names, name)), np.flatnonzero(parts == name)
        effects = fit(made.rows(kept), seen.part(kept), start=start) if kept.size else np.zeros(len(made.effects))
        own = software(effects, wanted.rows(rest))
        for constant in CONSTANTS:
            getattr(found, constant)[rest] = getattr(own, constant)
    return found
