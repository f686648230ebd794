"""An audit as the document that is kept: its findings with their place on the drawing of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.design.infer import tier_name
from railyard.ask.audit.design.levels import levels
from railyard.ask.audit.finding import KINDS
from railyard.measure.picture import tiered
from railyard.measure.result.answers.audit import AuditAnswer, CableEnds, FindingRow
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from railyard.ask.audit.audit import Audit
    from railyard.ask.audit.finding import Finding
    from railyard.ask.audit.network import Found
    from railyard.measure.picture import Drawing


def answer_of(audit: Audit, name: str) -> AuditAnswer:
    """The document.

    Args:
        audit: What was found.
        name: Of what was read.
    """
    loss, usd = float(audit.design["loss"]), float(audit.design["usd_per_month"])
    per_loss = usd / loss if loss > 0 else 0.0
    drawing = _drawing(audit.network)
    number = {device.described: at for at, device in enumerate(audit.network.discovery.devices)}
    cables = audit.cables or ((),) * len(audit.findings)
    return AuditAnswer(
        format="railyard-audit/1",
        name=name,
        version=version(),
        findings=tuple(
            _row(finding, rows, drawing, number) for finding, rows in zip(audit.findings, cables, strict=True)
        ),
        design=audit.design,
        loss=loss,
        usd_per_month=usd,
        loss_after_repair=tuple(float(left) for left in audit.repairs),
        usd_after_repair=tuple(float(left) * per_loss for left in audit.repairs),
        problems=tuple(problem.render() for problem in audit.problems),
        picture=drawing.picture(np.zeros(drawing.ends.shape[1])) if len(drawing.tiers) > 1 else None,
    )


def _drawing(found: Found) -> Drawing:
    """Hosts below, switches by their tier; what no leaf reaches is not drawn."""
    level = levels(found).astype(np.int64)
    row = np.where(found.host, 0, np.where(level > 0, level, -1))
    there = [tier for tier in range(int(row.max(initial=0)) + 1) if (row == tier).any()]
    lower = np.full(max(there, default=0) + 2, -1, np.int64)
    lower[there] = np.arange(len(there))
    titles = ["hosts" if tier == 0 else tier_name(tier) for tier in there]
    names = [device.described for device in found.discovery.devices]
    return tiered(names, lower[row], titles, found.ends.T.astype(np.int64))


def _row(finding: Finding, cables: tuple[int, ...], drawing: Drawing, number: dict[str, int]) -> FindingRow:
    ends = [finding.a, finding.b]
    devices = [number[name] for name in (device_of(end) for end in ends) if name in number]
    more: dict[str, Any] = {} if finding.step_s is None else {"step_s": finding.step_s}
    more |= {key: value for key in ("priced_by", "unpriced") if (value := getattr(finding, key))}
    if finding.band is not None:
        more["loss_band"] = finding.band
    if finding.other is not None:
        more["with_"] = CableEnds(a=finding.other[0], b=finding.other[1])
    return FindingRow(
        kind=finding.kind,
        about=KINDS[finding.kind],
        a=finding.a,
        b=finding.b,
        detail=finding.detail,
        loss=None if finding.unpriced else float(finding.loss),
        usd_per_month=None if finding.unpriced else float(finding.usd_per_month),
        worst_load=float(finding.worst_load),
        all_reduce=float(finding.all_reduce),
        place=drawing.place(np.empty(0, np.int64), np.array(devices, np.int64)),
        cables=cables,
        **more,
    )


def device_of(end: str) -> str:
    """The device of `device[port]`."""
    return end.rpartition("[")[0] or end
