"""The hall of a cluster as columns: racks with devices, cables, and the load of each in a run and over its step."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.audit import device_of
from railyard.ask.deploy.cabling import plan_of
from railyard.ask.observe.answer import links_of
from railyard.cluster.names import node_name
from railyard.face.web import dispatch
from railyard.face.web.views import packed, view
from railyard.graph.parquet import read_table
from railyard.kit.errors import InputError
from railyard.kit.files import read_bytes, read_text
from railyard.measure.picture import drawing_of
from railyard.measure.result.answers import NAMES, AuditAnswer, DiagnosisAnswer, answer_from
from railyard.measure.result.variants import StepVariant
from railyard.work.scenario import load
from railyard.work.scenario.load import ended
from railyard.work.study import compose
from railyard.work.study import folder as inputs
from railyard.work.study import folder as kept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster import Cluster
    from railyard.measure.result.answers import Answer
    from railyard.work.scenario.load import Draft

    Windows = tuple[NDArray[np.int64], NDArray[np.uint8]]


_HALLS = 2

_Built = tuple["CablingPlan", "NDArray[np.float64] | None"]
"""A plan, and the load of every directed link where a run counted it."""


@view("hall")
def hall(question: dict[str, Any]) -> bytes:
    """Racks and devices of a run's variant, or of a scenario: what is drawn first.

    Args:
        question: `folder` of the run and `variant`, its number; or `text` and `file` of a scenario; or `answer`, the
            folder of one that keeps its scenario. `person`: the folder that files may come from.

    Raises:
        InputError: There is no such variant, or its work has no cluster of one kind.
    """
    plan, _ = _opened(question)
    devices, racks = plan.devices, plan.racks
    floor, wide = racks.floor, racks.spec.rack_width_m
    roles = list(dict.fromkeys(devices.role.tolist()))
    boxes = list(dict.fromkeys(devices.box.tolist()))
    head = {
        "names": devices.name,
        "roles": roles,
        "boxes": boxes,
        "spoken": _spoken(plan),
        "networks": list(plan.networks),
        "tiers": [{"network": one.network, "name": one.name, "medium": one.medium} for one in plan.tiers],
        "cables": len(plan.cables),
        "servers": devices.servers,
        "accelerators_per_server": plan.cluster.ranks_per_server,
        "remarks": plan.remarks,
        "rack_units": racks.spec.rack_units,
        "rack_depth": racks.spec.rack_depth_m / wide,
    }
    return packed(
        head,
        {
            "row": floor.row.astype(np.int32),
            "column": floor.column.astype(np.int32),
            "x": ((floor.x_m - floor.x_m.min()) / wide).astype(np.float32),
            "y": ((floor.y_m - floor.y_m.min()) / wide).astype(np.float32),
            "zone": floor.zone.astype(np.int32),
            "power_w": racks.power_w.astype(np.float32),
            "rack": racks.rack.astype(np.int32),
            "unit": racks.unit.astype(np.int32),
            "height": devices.height_u.astype(np.int32),
            "role": np.array([roles.index(one) for one in devices.role], np.uint8),
            "box": np.array([boxes.index(one) for one in devices.box], np.int16),
            "draw_w": devices.power_w.astype(np.float32),
        },
    )


@view("cables")
def cables(question: dict[str, Any]) -> bytes:
    """Every cable with both ends, and the larger load of its two directions, -1 where the run counted none."""
    plan, load_of = _opened(question)
    table = plan.cables
    load = np.full(len(table), -1.0, np.float32)
    if load_of is not None:
        both = np.stack([load_of[table.link], load_of[np.minimum(table.link + 1, len(load_of) - 1)]])
        load = both.max(axis=0).astype(np.float32)
    return packed(
        {"loaded": load_of is not None},
        {
            "a": table.a.astype(np.int32),
            "b": table.b.astype(np.int32),
            "a_port": table.port[:, 0].astype(np.int32),
            "b_port": table.port[:, 1].astype(np.int32),
            "tier": table.tier.astype(np.uint8),
            "number": table.number.astype(np.int32),
            "length_m": plan.length_m.astype(np.float32),
            "gb_per_s": (table.rate_bps / 1e9).astype(np.float32),
            "load": load,
        },
    )


def _opened(question: dict[str, Any]) -> _Built:
    person = Path(question["person"])
    if "answer" in question:
        return plan_of_answer(Path(question["answer"]), person), None
    if "text" in question:
        return _planned(question["text"], person / question["file"], person)
    return _of_run(question)


def _of_run(question: dict[str, Any]) -> _Built:
    result = Path(question["folder"]) / "result.json"
    return _built(result, result.stat().st_mtime_ns, int(question["variant"]), Path(question["person"]))


def plan_of_answer(folder: Path, person: Path) -> CablingPlan:
    """The plan of the cluster that an answer is about.

    Raises:
        InputError: It keeps no scenario, or one without a cluster.
    """
    file = folder / "scenario.yaml"
    if not file.is_file():
        raise InputError("this answer keeps no cluster, so it has no hall", hint="name it: --cluster, or --plan")
    return _planned(read_text(file), file, person)[0]


@lru_cache(maxsize=_HALLS)
def _planned(text: str, file: Path, person: Path) -> _Built:
    """The hall of a scenario that has not been run: of its first variant."""
    return plan_of(_cluster(_variant(load.from_text(text, file), 0, person))), None


@lru_cache(maxsize=_HALLS)
def _built(result_file: Path, changed_ns: int, number: int, person: Path) -> _Built:
    del changed_ns
    result = kept.read_result(result_file)
    if not 0 <= number < len(result.variants):
        raise InputError("there is no such variant", key="variant", found=number, allowed=len(result.variants))
    cluster = _cluster(_variant(load.load(result_file.parent / "scenario.yaml"), number, person, result.absent))
    variant = result.variants[number]
    counted = kept.timeline_of(result_file.parent, number, variant.name).with_name("timeline.links.parquet")
    if not counted.is_file() or not isinstance(variant, StepVariant):
        return plan_of(cluster), None
    carried = read_table(counted, "links")["bytes"]
    line = cluster.links.line_bps[: cluster.links.physical]
    if len(carried) < len(line):
        return plan_of(cluster), None
    return plan_of(cluster), 8 * carried[: len(line)] / line / variant.step.seconds


def _cluster(draft: Draft) -> Cluster:
    with load.blaming(draft):
        return compose.cluster_of(draft, compose.catalog_of(draft))


def _variant(draft: Draft, number: int, person: Path, absent: Collection[str] = ()) -> Draft:
    for path in inputs.files_of(draft).values():
        dispatch.refuse_outside(path, person)
    found = ended(draft, absent)
    if number >= len(found):
        raise InputError("the folder holds another scenario than its result")
    return found[number].draft


def _spoken(plan: CablingPlan) -> list[str]:
    """Names of devices in scenarios: `leaf 3`, `plane 1 spine 2`; empty for those without cables."""
    names = [""] * len(plan.devices)
    links = plan.cluster.links
    for ends, nodes in ((plan.cables.a, links.source), (plan.cables.b, links.target)):
        devices, first = np.unique(ends, return_index=True)
        for device, row in zip(devices.tolist(), first.tolist(), strict=True):
            if plan.devices.level[device] == 0 or names[device]:
                continue
            network = plan.networks[int(plan.cables.network[row])]
            names[device] = node_name(plan.cluster, int(nodes[plan.cables.link[row]])).removeprefix(f"{network} ")
    return names


MOST_CABLES = 5000
"""Most cables of one finding: a dead switch has a hundred or so."""


@view("marks")
def marks(question: dict[str, Any]) -> dict[str, Any]:
    """Places to highlight, in the order of the answer.

    Args:
        question: `answer`, a folder; `person`.
    """
    folder = Path(question["answer"])
    plan = plan_of_answer(folder, Path(question["person"]))
    answer = _read(folder)
    rows = list(_of_audit(answer, plan) if isinstance(answer, AuditAnswer) else _of_diagnosis(answer, plan))
    return {"rows": rows}


def _read(folder: Path) -> Answer:
    file = next(path for name in NAMES.values() if (path := folder / f"{name}.json").is_file())
    return answer_from(read_bytes(file))


def _of_audit(answer: AuditAnswer, plan: CablingPlan) -> Iterator[dict[str, Any]]:
    number = {name: at for at, name in enumerate(plan.devices.name)}
    for one in answer.findings:
        ends = [device_of(end).split(" ")[0] for end in (one.a, one.b)]
        devices = list(dict.fromkeys(number[name] for name in ends if name in number))
        cables = [row for row in one.cables if row < len(plan.cables)]
        yield _mark(one.kind, f"{one.a} – {one.b}", one.usd_per_month, cables or _between(plan, devices), devices)


def _between(plan: CablingPlan, devices: list[int]) -> list[int]:
    """Cables that join two devices."""
    if len(devices) != 2:
        return []
    table = plan.cables
    found: list[int] = np.flatnonzero(np.isin(table.a, devices) & np.isin(table.b, devices)).tolist()
    return found


def _of_diagnosis(answer: Answer, plan: CablingPlan) -> Iterator[dict[str, Any]]:
    if not isinstance(answer, DiagnosisAnswer):
        return
    table = plan.cables
    for one in answer.verdict:
        links = links_of(one.part, plan.cluster)
        rows = np.flatnonzero(np.isin(table.link, links) | np.isin(table.link + 1, links))
        usd = None if one.usd_per_hour is None else one.usd_per_hour * 24 * 30
        yield _mark(one.kind, one.part, usd, rows.tolist(), _common(table.a[rows], table.b[rows]))


def _common(a: NDArray[np.int32], b: NDArray[np.int32]) -> list[int]:
    """Devices at which all of some cables meet: both where there is one cable."""
    devices, often = np.unique(np.concatenate([a, b]), return_counts=True)
    found: list[int] = devices[often == len(a)].tolist()
    return found


def _mark(kind: str, name: str, usd: float | None, cables: list[int], devices: list[int]) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "usd_per_month": usd,
        "cables": cables[:MOST_CABLES],
        "devices": devices,
    }


_RUNS = 2
FULL = 255


@view("load")
def windows(question: dict[str, Any]) -> bytes:
    """Starts of windows, the load of the network in each, and that of every edge of the drawing.

    Args:
        question: `folder` of the run, `variant`, `person`.

    Raises:
        InputError: The run kept no load over time.
    """
    plan = _of_run(question)[0]
    time_ps, load = _load(question)
    network = plan.cluster.back_end
    drawing = drawing_of(plan.cluster)
    mine = load[:, network.link_offset : network.link_offset + network.wiring.links]
    edges = drawing.busiest(mine)
    used = mine[:, mine.any(axis=0)]
    variant = kept.read_result(Path(question["folder"]) / "result.json").variants[int(question["variant"])]
    picture = drawing.picture(np.zeros(network.wiring.links)).plain()
    return packed(
        {"end_us": variant["step"]["seconds"] * 1e6, "picture": picture, "windows": len(load)},
        {
            "start_us": (time_ps / 1e6).astype(np.float32),
            "mean": (used.mean(axis=1) / FULL if used.size else np.zeros(len(load))).astype(np.float32),
            "most": (mine.max(axis=1, initial=0) / FULL).astype(np.float32),
            "step": drawing.busiest(_over_step(mine, time_ps, variant["step"]["seconds"] * 1e12)).astype(np.float32),
            "edges": edges,
        },
    )


def _over_step(load: NDArray[np.uint8], time_ps: NDArray[np.int64], end_ps: float) -> NDArray[np.float64]:
    """Mean load of every link over all windows, 0 to 1."""
    span = np.diff(np.append(time_ps, end_ps))
    return np.asarray(span @ load / (FULL * max(float(span.sum()), 1.0)), np.float64)


@view("load-cables")
def cables_over_time(question: dict[str, Any]) -> bytes:
    """The load of every cable in some windows, the larger one of its two directions, in 255ths.

    Args:
        question: As of `windows`, with `first` and `count` of them.
    """
    plan = _of_run(question)[0]
    _, load = _load(question)
    first = min(int(question["first"]), len(load))
    some = load[first : first + int(question["count"])]
    link = plan.cables.link
    both = np.maximum(some[:, link], some[:, np.minimum(link + 1, load.shape[1] - 1)])
    return packed({"first": first, "count": len(some)}, {"load": both})


def _load(question: dict[str, Any]) -> Windows:
    folder, number = Path(question["folder"]), int(question["variant"])
    name = kept.read_result(folder / "result.json").variants[number].name
    file = kept.timeline_of(folder, number, name).with_name("timeline.link_windows.parquet")
    if not file.is_file():
        raise InputError("this run kept no load over time", hint="run it again, on `flow` or `packet`")
    return _read_windows(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=_RUNS)
def _read_windows(file: Path, changed_ns: int) -> Windows:
    del changed_ns
    table = read_table(file, "link_windows")
    return table["time_ps"], table["load"]
