"""Joins results of several runs, with a verdict on their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.measure.result.reading import FORMAT, Result, kind_of
from railyard.measure.result.section import ProvenanceFigures
from railyard.measure.verdict import verdict_of
from railyard.work.scenario import load
from railyard.work.study.provenance import each_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOT_SETTINGS = ("name", "format", "compare")
_ABSENT = object()


def joined(runs: Mapping[str, Result]) -> Result:
    """The variants of all runs in one result, each named after its run, with a verdict on their order.

    A variant's distinguishing `settings` are computed again: every key of the scenarios in which any two differ. The
    verdict needs it to know which errors the two share.

    Raises:
        InputError: There are fewer than two, or they are of different kinds of work.
    """
    if len(runs) < 2:
        raise InputError("one run is nothing to compare", hint="give two or more, or a scenario with `--vary`")
    _refuse_mixtures(runs)
    titles = _titles(runs)
    named = [
        (f"{titles[run]}: {one.name}" if len(result.variants) > 1 else titles[run], one)
        for run, result in runs.items()
        for one in result.variants
    ]
    settings = _apart([scenario for result in runs.values() for scenario in _scenarios(result)])
    rows = tuple(
        one.model_copy(update={"name": name, "settings": apart})
        for (name, one), apart in zip(named, settings, strict=True)
    )
    verdict = verdict_of(rows)
    more: dict[str, Any] = {} if verdict is None else {"verdict": verdict}
    return Result(
        format=FORMAT,
        name=" against ".join(titles.values()),
        scenario={"name": " against ".join(titles.values()), "runs": {run: one.scenario for run, one in runs.items()}},
        provenance=_provenance(list(runs.values())),
        variants=rows,
        **more,
    )


def _refuse_mixtures(runs: Mapping[str, Result]) -> None:
    kinds = {run: kind_of(result.variants[0]) for run, result in runs.items()}
    if len(set(kinds.values())) > 1:
        found = ", ".join(f"{run}: {kind}" for run, kind in kinds.items())
        raise InputError("runs of different kinds of work have no figure in common", found=found)


def _titles(runs: Mapping[str, Result]) -> dict[str, str]:
    """Name of each run: its scenario's name if unique, otherwise that of its folder."""
    names = [result.name for result in runs.values()]
    return {run: result.name if names.count(result.name) == 1 else run for run, result in runs.items()}


def _scenarios(result: Result) -> list[dict[str, Any]]:
    """The scenario of each variant of a run, by dotted key with defaults."""
    if "runs" in result.scenario or "workload" not in result.scenario:  # joined before, or traffic without a scenario
        return [_flat({**result.scenario, **one.settings}) for one in result.variants]
    plain = {key: value for key, value in result.scenario.items() if key != "format"}
    draft = load.from_values(plain)
    found = [_flat(load.dump(each.draft.scenario)) for each in load.ended(draft, result.absent)]
    if len(found) != len(result.variants):
        raise InputError(f"the run of `{result.name}` holds other variants than its scenario")
    return found


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if not prefix and key in _NOT_SETTINGS:
            continue
        if isinstance(inner, dict) and inner:
            flat |= _flat(inner, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = inner
    return flat


def _apart(scenarios: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each scenario the keys in which any two differ; keys that a scenario lacks are absent."""
    keys = list(dict.fromkeys(key for scenario in scenarios for key in scenario))
    differ = [key for key in keys if any(one.get(key, _ABSENT) != scenarios[0].get(key, _ABSENT) for one in scenarios)]
    return [{key: scenario[key] for key in differ if key in scenario} for scenario in scenarios]


def _provenance(results: Sequence[Result]) -> ProvenanceFigures:
    first = results[0].provenance
    every = [result.provenance for result in results]
    return ProvenanceFigures(
        version=", ".join(each_once([one.version] for one in every)),
        engine=", ".join(each_once([one.engine] for one in every)),
        seed=first.seed,
        digest=first.digest,
        sources=tuple(each_once(one.sources for one in every)),
        left_out=tuple(each_once(one.left_out for one in every)),
        defaults=tuple(each_once(one.defaults for one in every)),
    )
