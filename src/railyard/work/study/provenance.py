"""The result of all variants of a study, with the sources of its numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.reading import Result
    from railyard.measure.result.reading import Variant as Figures
    from railyard.work.scenario.load import ImpossibleVariant
    from railyard.work.study.kind import Failed, Measured, StudyDocument


def estimates(model: Model) -> Iterator[str]:
    """Notes on estimates in a model's figures.

    Args:
        model: A model of the catalog, or from its publisher's file.
    """
    if model.assumed:
        yield f"{model.name}: its file does not say it all, and these were assumed: {model.assumed}"
    if model.recurrent:
        count = sum(kind.layers for kind in model.kinds if kind.mixer == "recurrent")
        yield (
            f"the scans and states of the {count} {model.recurrent.kind} layers of {model.name} were estimated from"
            " FLOPs and bytes, not fitted: no recurrence was measured, and the bands of model error do not cover them"
        )
    origin = model.provenance.get("side_parameters")
    if origin is not None and origin.confidence == "estimated":
        yield (
            f"{model.name}: what joins a tower of its kind to the language model was estimated; its weights are in"
            " memory, and the time of images or sound is not counted"
        )


T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class Memo:
    """Cache of objects by name and key."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def get(self, what: str, key: object, make: Callable[[], T]) -> T:
        """The cached object of that name and key, or a new one from `make`."""
        text = f"{what} {json.dumps(key, default=str, sort_keys=True)}"
        if text not in self._made:
            self._made[text] = make()
        made: T = self._made[text]
        return made


def sharing(one: Callable[[V, Memo], P]) -> Callable[[Sequence[V], str | None], list[P]]:
    """Prepares variants one by one, for the only engine that there is; what they have in common is made once."""

    def prepare(variants: Sequence[V], engine: str | None = None) -> list[P]:
        del engine
        memo = Memo()
        return [one(variant, memo) for variant in variants]

    return prepare


def sources_of(machines: Iterable[Cluster], priced: Iterable[Source], fabric: Fabric | None = None) -> Iterator[Source]:
    """Origins of the accelerators, servers and NICs of some machines, of prices, and of a fabric's constants."""
    from railyard.measure.cost.assumptions import Source, of_entry

    for machine in machines:
        for entry in (machine.accelerator, machine.server, machine.nic):
            yield from of_entry(entry, *entry.provenance)
    yield from priced
    if fabric is not None:
        for field, origin in fabric.sources.items():
            yield Source(fabric.name, field, origin.value_text, origin.source, origin.year, origin.confidence)


def version() -> str:
    """Version of this package."""
    from importlib import metadata

    return metadata.version("railyard")


def result_of(
    document: StudyDocument,
    plain: dict[str, object],
    engine: str,
    measured: Sequence[Measured],
    *,
    dated: bool = True,
    failed: Sequence[Failed] = (),
    impossible: Sequence[ImpossibleVariant] = (),
    unusual: Mapping[str, Sequence[str]] | None = None,
) -> Result:
    """The result of all variants.

    Args:
        document: The document of the study.
        plain: The same as plain values, with defaults.
        engine: Name of the engine.
        measured: Every variant.
        dated: Whether the result has a date; without one, the same study gives the same bytes.
        failed: Variants that failed.
        impossible: Combinations that were left out.
        unusual: Remarks on unusual values by variant; they become warnings.
    """
    from railyard.measure.result.reading import FORMAT, FailedVariant, Result
    from railyard.measure.result.section import ProvenanceFigures, SourceRow
    from railyard.measure.verdict import verdict_of

    variants = tuple(_warned(found.variant, (unusual or {}).get(found.variant.name, ())) for found in measured)
    verdict = verdict_of(variants)
    more: dict[str, Any] = {} if verdict is None else {"verdict": verdict}
    lost = tuple(
        FailedVariant(name=one.variant.name, settings=dict(one.variant.settings), error=one.error) for one in failed
    )
    if lost:
        more["failed"] = lost
    if impossible:
        more["impossible"] = tuple(
            FailedVariant(name=one.name, settings=dict(one.settings), error=one.error.reason) for one in impossible
        )
    return Result(
        format=FORMAT,
        name=document.title,
        scenario=plain,
        provenance=ProvenanceFigures(
            version=version(),
            engine=engine,
            seed=document.seed,
            digest=measured[0].digest,
            sources=tuple(SourceRow(**vars(source)) for source in each_once(found.sources for found in measured)),
            left_out=tuple(each_once(found.left_out for found in measured)),
            defaults=tuple(each_once(found.defaults for found in measured)),
            **({"created": datetime.now(UTC).isoformat(timespec="seconds")} if dated else {}),
        ),
        variants=variants,
        **more,
    )


def _warned(variant: Figures, words: Sequence[str]) -> Figures:
    return variant.model_copy(update={"warnings": (*words, *variant.warnings)}) if words else variant


def each_once(lists: Iterable[Iterable[T]]) -> list[T]:
    """All items in order, without repetitions."""
    return list(dict.fromkeys(item for items in lists for item in items))
