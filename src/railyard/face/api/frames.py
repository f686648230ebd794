"""Parts of a result as polars tables, all variants below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.files import read_frame
from railyard.measure.result.variants import (
    BaseVariant,
    EdgeVariant,
    FederatedVariant,
    LocalVariant,
    OperateVariant,
    ServedVariant,
    StepVariant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import polars as pl

    from railyard.measure.result.money import ServingCostFigures
    from railyard.measure.result.reading import Result, Variant
    from railyard.measure.result.section import Band, Figures
    from railyard.measure.result.serving import Percentiles

    Row = dict[str, object]


WIDE = (FederatedVariant, LocalVariant, EdgeVariant)
_FILES = {"tasks": "timeline.parquet", "requests": "requests.parquet"}
"""Tables that lie in the folder of the run: of a training run the tasks, of a serving run the requests."""


def table(result: Result, folder: Path | None, name: str) -> pl.DataFrame:
    """The table of that name; see `railyard.face.api.TABLES`.

    Raises:
        InputError: It lies in the folder of the run, and that is not there.
    """
    import polars as pl

    if name in _FILES:
        serves = len(result.served) == len(result.variants)
        return _kept(folder, _FILES[name], name) if serves == (name == "requests") else pl.DataFrame()
    if name == "sources":
        return pl.DataFrame([row.plain() for row in result.provenance.sources], infer_schema_length=None)
    rows = [{"variant": variant.name, **row} for variant in result.variants for row in _rows(variant, name)]
    return pl.DataFrame(rows, infer_schema_length=None)


def _kept(folder: Path | None, file: str, what: str) -> pl.DataFrame:
    path = None if folder is None else folder / file
    if path is None or not path.is_file():
        raise InputError(f"the {what} are in the folder of the run, which is not there", file=path)
    return read_frame(path)


def _rows(variant: Variant, name: str) -> Iterable[Row]:
    if isinstance(variant, StepVariant):
        return _STEP_ROWS.get(name, _none)(variant)
    if isinstance(variant, OperateVariant):
        return _operated(variant, name)
    if isinstance(variant, WIDE):
        return _wide(variant, name)
    return _SERVED_ROWS.get(name, _none)(variant) if isinstance(variant, ServedVariant) else ()


_WIDE_LISTS = {"clients": ("participation", "groups"), "sites": ("sites",), "places": ("places",)}
"""Where the rows of a table of work outside one hall stand."""


def _wide(variant: FederatedVariant | LocalVariant | EdgeVariant, name: str) -> Iterable[Row]:
    """The figures of rounds, sites or places, the causes of their time, and their rows."""
    found: dict[str, Any] = variant.plain()[variant.kind]
    if name == "variants":
        return [_settings(variant) | {key: value for key, value in _columns_of(found).items() if not _listed(value)}]
    if name == "time":
        places = [(row["name"], row["causes"]) for row in found.get("places", ())]
        rows = [({"place": place} | cause) for place, causes in places for cause in causes]
        return rows or list(found["causes"])
    inner: Any = found
    for key in _WIDE_LISTS.get(name, ("",)):
        inner = inner.get(key, {}) if isinstance(inner, dict) else {}
    return [{key: value for key, value in _columns_of(row).items() if not _listed(value)} for row in inner]


def _listed(value: object) -> bool:
    return isinstance(value, list | tuple)


def _operated(variant: OperateVariant, name: str) -> Iterable[Row]:
    """The figures of a cluster in time, where its time went, or its tenants."""
    found = variant.operate
    if name == "time":
        return [part.plain() for part in found.time]
    if name == "tenants":
        return [_columns_of(row.plain()) for row in found.tenants]
    single = ("span_s", "jct_s", "queue_s", "slowdown", "finish_time_fairness", "utilization", "goodput", "ettr", "usd")
    return [_settings(variant) | _columns_of({key: found[key] for key in single})] if name == "variants" else []


def _columns_of(values: Row, head: str = "") -> Row:
    """Sections within sections as columns: `usd_total_low`."""
    found: Row = {}
    for key, value in values.items():
        found |= _columns_of(value, f"{head}{key}_") if isinstance(value, dict) else {f"{head}{key}": value}
    return found


def _none(_variant: Variant) -> Iterable[Row]:
    return ()


def _settings(variant: BaseVariant) -> Row:
    return {f"set {key}": str(value) for key, value in variant.settings.items()}


def _served(variant: ServedVariant) -> Iterable[Row]:
    """The figures of a serving run."""
    serving = variant.serving
    row = _settings(variant)
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s"):
        values: Percentiles = getattr(serving, name)
        row |= {f"{name}_{level}": value for level, value in values.plain().items()}
    row |= {
        "rate_per_s": serving.requests.rate_per_s,
        "attainment": serving.slo.attainment,
        "goodput_rps": serving.slo.goodput_rps,
        "capacity_rps": None if serving.capacity is None else serving.capacity.rate_per_s,
        "tokens_per_s_per_gpu": serving.throughput.per_gpu,
        "tokens_per_s_per_user": serving.throughput.per_user,
        "tokens_per_s_per_mw": serving.throughput.per_mw,
        "kv_hit_rate": serving.kv.hit_rate,
        "power_w": serving.power.total_w.typical,
    }
    return [row | _prices(serving.cpmt)]


def _prices(cost: ServingCostFigures | None) -> Row:
    names = ("total", "input", "output", "split_input", "split_output")
    bands: dict[str, Band | None] = {name: None if cost is None else getattr(cost, name) for name in names}
    return {f"cpmt_{name}_usd": None if band is None else band.typical for name, band in bands.items()}


def _summary(variant: StepVariant) -> Iterable[Row]:
    low, typical, high = (None, None, None) if variant.cpmt is None else variant.cpmt.ends
    row = _settings(variant) | {
        "step_s": variant.step.seconds,
        "network_tax": variant.tax.tokens_lost,
        "scale_up_tax": variant.tax.scale_up.tokens_lost,
        "gpu_utilization": variant.utilization.gpu,
        "mfu": variant.utilization.mfu,
        "tokens_per_s_per_gpu": variant.utilization.tokens_per_s_per_gpu,
        "jct_s": None if variant.jct is None else variant.jct.seconds,
        "cpmt_low_usd": low,
        "cpmt_usd": typical,
        "cpmt_high_usd": high,
        "bottleneck": variant.bottleneck.name,
    }
    shares: dict[str, float] = {}
    for part in variant.time:
        shares[f"share_{part.cause}"] = shares.get(f"share_{part.cause}", 0.0) + part.share
    return [row | shares]


def _tax(variant: StepVariant) -> Iterable[Row]:
    """A row for each part of the step: what each network takes, and what no network changes."""
    tax, rows = variant.tax, list[tuple[str | None, str, float]]()
    for network, lost in (("scale-out", tax), ("scale-up", tax.scale_up)):
        rows += [(network, cause, share) for cause, share in lost.exposed.items()]
        rows.append((network, "slowed kernels", lost.slowed_kernels))
    rows += [(None, cause, share) for cause, share in tax.rest.items()]
    return [{"network": network, "cause": cause, "share": share} for network, cause, share in rows]


def _ranks(variant: StepVariant) -> Iterable[Row]:
    busy = variant.utilization.per_rank
    return ({"index": index, "gpu_utilization": value} for index, value in enumerate(busy))


def _flat(sections: Iterable[Figures]) -> Iterable[Row]:
    """Sections as rows, without what has parts of its own."""
    return (
        {key: value for key, value in row.plain().items() if not isinstance(value, list | dict)} for row in sections
    )


_STEP_ROWS: Mapping[str, Callable[[StepVariant], Iterable[Row]]] = {
    "variants": _summary,
    "ranks": _ranks,
    "tax": _tax,
    "time": lambda variant: _flat(variant.time),
    "tiers": lambda variant: _flat(variant.network.tiers),
    "links": lambda variant: _flat(variant.network.hot_links),
    "collectives": lambda variant: _flat(variant.collectives),
    "memory": lambda variant: _flat(variant.memory.rows),
    "power": lambda variant: _flat(variant.power.components),
    "capex": lambda variant: _flat(variant.capex.components),
    "cpmt": lambda variant: _flat(() if variant.cpmt is None else variant.cpmt.breakdown),
    "bottleneck": lambda variant: _flat(variant.bottleneck.ranking),
}
_SERVED_ROWS: Mapping[str, Callable[[ServedVariant], Iterable[Row]]] = {
    "variants": _served,
    "power": lambda variant: _flat(variant.serving.power.components),
    "capex": lambda variant: _flat(variant.serving.capex.components),
    "cpmt": lambda variant: _flat(() if variant.serving.cpmt is None else variant.serving.cpmt.breakdown),
    "capacity": lambda variant: _flat(() if variant.serving.capacity is None else variant.serving.capacity.points),
    "replicas": lambda variant: _flat(variant.serving.replicas),
}
