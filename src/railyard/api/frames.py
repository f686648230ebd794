"""Parts of a result as polars tables, all variants below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import polars as pl

    Row = dict[str, Any]
    Variant = Mapping[str, Any]


_PRICES = ("total", "input", "output", "split_input", "split_output")
_FILES = {"tasks": "timeline.parquet", "requests": "requests.parquet"}
"""Tables that lie in the folder of the run: of a training run the tasks, of a serving run the requests."""


def table(result: Mapping[str, Any], folder: Path | None, name: str) -> pl.DataFrame:
    """The table of that name; see `railyard.api.TABLES`.

    Raises:
        InputError: It lies in the folder of the run, and that is not there.
    """
    import polars as pl

    if name in _FILES:
        serves = all("serving" in variant for variant in result["variants"])
        return _kept(folder, _FILES[name], name) if serves == (name == "requests") else pl.DataFrame()
    if name == "sources":
        return pl.DataFrame(result["provenance"]["sources"], infer_schema_length=None)
    rows = [{"variant": variant["name"], **row} for variant in result["variants"] for row in _ROWS[name](variant)]
    return pl.DataFrame(rows, infer_schema_length=None)


def _kept(folder: Path | None, file: str, what: str) -> pl.DataFrame:
    import polars as pl

    path = None if folder is None else folder / file
    if path is None or not path.is_file():
        raise InputError(f"the {what} are in the folder of the run, which is not there", file=path)
    return pl.read_parquet(path)


def _served(variant: Variant) -> Iterable[Row]:
    """The figures of a serving run."""
    serving = variant["serving"]
    cpmt = serving["cpmt"] or {}
    row: Row = {f"set {key}": str(value) for key, value in variant["settings"].items()}
    row |= {
        f"{name}_{level}": serving[name][level]
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s")
        for level in ("p50", "p90", "p99", "p999", "mean")
    }
    row |= {
        "rate_per_s": serving["requests"]["rate_per_s"],
        "attainment": serving["slo"]["attainment"],
        "goodput_rps": serving["slo"]["goodput_rps"],
        "capacity_rps": (serving["capacity"] or {}).get("rate_per_s"),
        **{f"tokens_per_s_{name}": serving["throughput"][name] for name in ("per_gpu", "per_user", "per_mw")},
        "kv_hit_rate": serving["kv"]["hit_rate"],
        "power_w": serving["power"]["total_w"]["typical"],
    }
    row |= {f"cpmt_{kind}_usd": cpmt.get(kind, {}).get("typical") for kind in _PRICES}
    return [row]


def _summary(variant: Variant) -> Iterable[Row]:
    if "serving" in variant:
        return _served(variant)
    cpmt = variant.get("cpmt") or {}
    row: Row = {f"set {key}": str(value) for key, value in variant["settings"].items()}
    row |= {
        "step_s": variant["step"]["seconds"],
        "gpu_utilization": variant["utilization"]["gpu"],
        "mfu": variant["utilization"]["mfu"],
        "tokens_per_s_per_gpu": variant["utilization"]["tokens_per_s_per_gpu"],
        "jct_s": (variant.get("jct") or {}).get("seconds"),
        "cpmt_low_usd": cpmt.get("low"),
        "cpmt_usd": cpmt.get("typical"),
        "cpmt_high_usd": cpmt.get("high"),
        "bottleneck": (variant.get("bottleneck") or {}).get("name"),
    }
    for part in variant["time"]:
        key = f"share_{part['cause']}"
        row[key] = row.get(key, 0.0) + part["share"]
    return [row]


def _ranks(variant: Variant) -> Iterable[Row]:
    busy = variant.get("utilization", {}).get("per_rank", ())
    return ({"index": index, "gpu_utilization": value} for index, value in enumerate(busy))


def _listed(*path: str) -> Callable[[Variant], Iterable[Row]]:
    def rows(variant: Variant) -> Iterable[Row]:
        found: Any = variant if path[0] in variant else variant.get("serving")
        for step in path:
            found = (found or {}).get(step)
        return ({key: value for key, value in row.items() if not isinstance(value, list | dict)} for row in found or ())

    return rows


_ROWS: Mapping[str, Callable[[Variant], Iterable[Row]]] = {
    "variants": _summary,
    "ranks": _ranks,
    "time": _listed("time"),
    "tiers": _listed("network", "tiers"),
    "links": _listed("network", "hot_links"),
    "collectives": _listed("collectives"),
    "memory": _listed("memory", "rows"),
    "power": _listed("power", "components"),
    "capex": _listed("capex", "components"),
    "cpmt": _listed("cpmt", "breakdown"),
    "bottleneck": _listed("bottleneck", "ranking"),
    "capacity": _listed("serving", "capacity", "points"),
    "replicas": _listed("serving", "replicas"),
}
