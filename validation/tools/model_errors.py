"""Writes the record of model error: every left-out error of the validation, and the bands that the package ships.

python validation/tools/model_errors.py [training] [collectives] [serving] [slowdowns]

Writes validation/data/left_out.csv (a row a left-out error) and src/railyard/measure/data/model_errors.json (a band for
each question and family). With names only those are computed anew, the others stay as they are on record. Run it, then
`believe_page.py`, after any change of constants or data.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import serving_left_out

from railyard import catalog
from railyard.measure.model_error import UNKNOWN, serving_family, serving_key
from railyard.work.training import profiles
from railyard_validation.bands import INSIDE, ErrorBand, Miss, bands
from railyard_validation.collectives import left_out as collectives
from railyard_validation.serving.left_out import cases_of, quarter_of, source_of
from railyard_validation.training.by_time import forecasts
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import scored
from railyard_validation.training.leave_out import published
from railyard_validation.training.slowdowns import slowdowns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from railyard.catalog import Catalog
    from railyard_validation.serving.cases import Case as ServingCase
    from railyard_validation.training.by_time import Forecast
    from railyard_validation.training.cases import Case

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation" / "data"
ROWS = DATA / "left_out.csv"
SHIPPED = ROOT / "src/railyard/measure/data/model_errors.json"
QUESTIONS = {
    "training": ("step",),
    "collectives": ("collective",),
    "serving": ("tpot", "ttft", "throughput", "power"),
    "slowdowns": ("slowed kernels",),
}


def of_training(known: Catalog) -> Iterator[Miss]:
    """Steps of judged rows, forecast from what was published before them; then the same as if nobody said what ran."""
    cases = _scored(known)
    yield from (_step(one, "") for one in forecasts(cases, named=True))
    yield from (_step(one, UNKNOWN) for one in forecasts(cases, named=False))


def _scored(known: Catalog) -> list[Case]:
    newest = read_cases(DATA / "training" / "mlperf_v6.csv", known)[0]
    return [case for case in [*published(known)[0], *newest] if scored(case)]


def _step(forecast: Forecast, suffix: str) -> Miss:
    """The miss of one forecast; what a source publishes in one half year is a source of its own."""
    case = forecast.case
    job = case.training
    kind = "experts" if job.model.experts else "dense"
    bits = "16 bits" if job.precision in ("bf16", "fp16") else "8 bits or fewer"
    device = case.machine.accelerator
    group = "|".join((job.software.name, job.model.name, device.name, job.precision))
    error = math.log(case.measured / forecast.predicted)
    source = f"{case.family}, {forecast.cut}"
    return Miss("step", f"{kind}, {bits}{suffix}", source, group, error, "time", device.architecture)


def of_collectives(known: Catalog) -> Iterator[Miss]:
    """Times of collectives, each half year under the constants that `collectives_left_out.py` fitted to all before."""
    logs = collectives.Logs(DATA / "nccl", known)
    fits = collectives.read(DATA / "nccl" / "left_out.csv")
    return collectives.misses([collectives.judge(logs, fit) for fit in fits if fit.without in logs.cuts])


def of_serving(known: Catalog) -> Iterator[Miss]:
    """Errors of every metric, forecast from what was published before the row's quarter."""
    yield from (miss for miss, _ in serving_misses(known))


def serving_misses(known: Catalog) -> Iterator[tuple[Miss, ServingCase]]:
    """The same, with the rows; what a source publishes in one quarter is a source of its own."""
    every = cases_of(serving_left_out.TABLE, known)
    cases, first = {case.row.id: case for case in every}, first_published(every)
    for metric, by in serving_left_out.recorded().items():
        for row, error in by["time"].items():
            case = cases[row]
            kind, cut = "all", quarter_of(case)
            if metric != "power":
                near = first[key_of(case)] < cut
                kind = serving_family(experts=bool(case.model.experts), split=case.prefill is not None, published=near)
            group = "|".join((case.engine, case.model.name, case.device.name))
            yield Miss(metric, kind, f"{source_of(case)}, {cut}", group, -math.log1p(error), "time"), case


def first_published(cases: Iterable[ServingCase]) -> dict[str, str]:
    """First quarter in which each kind of deployment was published."""
    first: dict[str, str] = {}
    for case in cases:
        first[key_of(case)] = min(quarter_of(case), first.get(key_of(case), "9999"))
    return first


def key_of(case: ServingCase) -> str:
    """What a row shares with deployments that are near to it."""
    return serving_key(case.model.name, case.device.architecture, case.engine, case.layout.precision)


def of_slowdowns(known: Catalog) -> Iterator[Miss]:
    """What computation loses beside collectives; no constant was fitted to these figures."""
    for one in slowdowns(known):
        yield Miss("slowed kernels", "all", one.source, one.source, math.log(one.measured / one.predicted), "source")


PARTS: dict[str, Callable[[Catalog], Iterator[Miss]]] = {
    "training": of_training,
    "collectives": of_collectives,
    "serving": of_serving,
    "slowdowns": of_slowdowns,
}


def recorded() -> list[Miss]:
    """The left-out errors on record."""
    if not ROWS.is_file():
        return []
    with ROWS.open(encoding="utf-8", newline="") as handle:
        rows: list[dict[str, Any]] = list(csv.DictReader(handle))
        return [Miss(**{**row, "error": float(row["error"])}) for row in rows]


def judged_software(known: Catalog) -> list[str]:
    """Keys of the software profiles of the judged training runs."""
    return sorted({profiles.key_of(case.training.software) for case in _scored(known)})


def write(misses: list[Miss], known: Catalog) -> None:
    """Writes the errors, and the bands that follow from them; groups are numbers that only tell rows apart."""
    groups: dict[tuple[str, str], int] = {}
    with ROWS.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([field.name for field in fields(Miss)])
        for miss in misses:
            group = groups.setdefault((miss.source, miss.group), len(groups))
            cells = asdict(miss) | {"group": group, "error": f"{miss.error:.4f}"}
            writer.writerow(cells.values())
    SHIPPED.parent.mkdir(exist_ok=True)
    found = {
        "inside": INSIDE,
        "software": judged_software(known),
        "deployments": sorted(first_published(cases_of(serving_left_out.TABLE, known))),
        "bands": [_row(band) for band in bands(recorded())],
    }
    SHIPPED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _row(band: ErrorBand) -> dict[str, object]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(band).items()}


def main(names: list[str]) -> None:
    known, before = catalog.load(), recorded()
    found: list[Miss] = []
    for name, errors in PARTS.items():
        kept = [miss for miss in before if miss.question in QUESTIONS[name]]
        found += list(errors(known)) if name in (names or PARTS) or not kept else kept
    write(found, known)


if __name__ == "__main__":
    main(sys.argv[1:])
