"""Where in the hall each finding of an audit, or each part that a diagnosis names, is: rows of cables, devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.audit import device_of
from railyard.ask.observe.answer import links_of
from railyard.face.web.views import floor
from railyard.kit.files import read_bytes
from railyard.measure.result.answers.answer import NAMES, answer_from
from railyard.measure.result.answers.check import AuditAnswer, DiagnosisAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.measure.result.answers.answer import Answer

MOST_CABLES = 5000
"""Of one finding: a dead switch has a hundred or so."""


def marks(question: dict[str, Any]) -> dict[str, Any]:
    """In the order of the answer: what to light.

    Args:
        question: `answer`, a folder; `person`.
    """
    folder = Path(question["answer"])
    plan = floor.plan_of_answer(folder, Path(question["person"]))
    answer = _read(folder)
    rows = list(_of_audit(answer, plan) if isinstance(answer, AuditAnswer) else _of_diagnosis(answer, plan))
    return {"rows": rows}


def _read(folder: Path) -> Answer:
    file = next(path for name in NAMES.values() if (path := folder / f"{name}.json").is_file())
    return answer_from(read_bytes(file))


def _of_audit(answer: AuditAnswer, plan: Plan) -> Iterator[dict[str, Any]]:
    number = {name: at for at, name in enumerate(plan.devices.name)}
    for one in answer.findings:
        ends = [device_of(end).split(" ")[0] for end in (one.a, one.b)]
        devices = list(dict.fromkeys(number[name] for name in ends if name in number))
        cables = [row for row in one.cables if row < len(plan.cables)]
        yield _mark(one.kind, f"{one.a} – {one.b}", one.usd_per_month, cables or _between(plan, devices), devices)


def _between(plan: Plan, devices: list[int]) -> list[int]:
    """Cables that join two devices."""
    if len(devices) != 2:
        return []
    table = plan.cables
    found: list[int] = np.flatnonzero(np.isin(table.a, devices) & np.isin(table.b, devices)).tolist()
    return found


def _of_diagnosis(answer: Answer, plan: Plan) -> Iterator[dict[str, Any]]:
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
