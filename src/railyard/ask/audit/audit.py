"""The audit of a network as found: its faults, priced and in the order in which repairs pay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import railyard.catalog as catalogs
from railyard.ask.audit.absent import completed
from railyard.ask.audit.blocks import levels
from railyard.ask.audit.differences import differences
from railyard.ask.audit.evidence import evidence
from railyard.ask.audit.infer import infer, tier_name
from railyard.ask.audit.reference import Pricing, price_of
from railyard.ask.audit.symptom import KINDS, BlockPlaces, placed
from railyard.cluster.asbuilt import ibnetdiscover, lldp, netbox
from railyard.cluster.asbuilt.reported.reports import gather
from railyard.kit.errors import InputError, Problem
from railyard.kit.files import read_text
from railyard.measure.numbers import counted
from railyard.measure.picture import tiered
from railyard.measure.result.answers import AuditAnswer, CableEnds, FindingRow
from railyard.work.scenario import load
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.ask.audit.against import PlanDifference
    from railyard.ask.audit.infer import InferredDesign
    from railyard.ask.audit.planned import PlannedNetwork, PlanPricing
    from railyard.ask.audit.symptom import AuditFinding
    from railyard.cluster.asbuilt.reported.reports import Reports
    from railyard.cluster.network_table import NetworkTable
    from railyard.measure.picture import Drawing
    from railyard.work.scenario.load import Draft


def discovered(
    fabric: Path | None, folder: Path | None, documented: Path | None, *, planned: bool
) -> tuple[NetworkTable, NetworkTable | None]:
    """The network as found, and as NetBox has it where that is what was planned.

    Args:
        fabric: Output of `ibnetdiscover`.
        folder: Of LLDP neighbours.
        documented: NetBox's cables: what was planned if there is a discovery, else what is audited.
        planned: Whether a scenario is the plan.

    Raises:
        InputError: There is not one discovery, or nothing can be read.
    """
    listed = [one for one in (fabric, folder) if one is not None]
    if len(listed) > 1 or (not listed and documented is None) or (listed and documented is not None and planned):
        raise InputError(
            "an audit compares one discovery with one plan",
            allowed="`--ibnetdiscover FILE`, `--lldp FOLDER` or `--netbox FILE`; NetBox may be the plan for the"
            " other two",
        )
    papers = None if documented is None else _whole(netbox.read(documented), documented)
    if not listed:
        assert papers is not None
        return papers, None
    found = lldp.read(listed[0]) if folder is not None else ibnetdiscover.read(read_text(listed[0]), str(fabric))
    return _whole(found, listed[0]), papers


def _whole(found: NetworkTable, path: Path) -> NetworkTable:
    if found.ports:
        return found
    if found.problems:
        raise InputError.many(found.problems)
    raise InputError("it has no cables", file=path)


def answer_of(audit: Audit, name: str) -> AuditAnswer:
    """The document."""
    loss, usd = float(audit.design["loss"]), float(audit.design["usd_per_month"])
    per_loss = usd / loss if loss > 0 else 0.0
    drawing = _drawing(audit.network)
    number = {label: at for at, label in enumerate(audit.network.label)}
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


def _drawing(found: NetworkTable) -> Drawing:
    """Hosts below, switches by their tier; what no leaf reaches is not drawn."""
    level = levels(found).astype(np.int64)
    row = np.where(found.host, 0, np.where(level > 0, level, -1))
    there = [tier for tier in range(int(row.max(initial=0)) + 1) if (row == tier).any()]
    lower = np.full(max(there, default=0) + 2, -1, np.int64)
    lower[there] = np.arange(len(there))
    titles = ["hosts" if tier == 0 else tier_name(tier) for tier in there]
    return tiered(found.label, lower[row], titles, found.ends.T.astype(np.int64))


def _row(finding: AuditFinding, cables: tuple[int, ...], drawing: Drawing, number: dict[str, int]) -> FindingRow:
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


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    Attributes:
        design: Against what, in figures; `doubts` says what is not sure.
        repairs: Loss that is left after each repair, in the order of the findings.
        network: What findings are shown on: the plan where there is one, else what was found.
        cables: Rows of the plan's cables that each finding takes away or slows; empty without a plan.
    """

    findings: tuple[AuditFinding, ...]
    design: dict[str, Any]
    repairs: tuple[float, ...]
    problems: tuple[Problem, ...]
    network: NetworkTable
    cables: tuple[tuple[int, ...], ...] = ()


def audit(discovery: NetworkTable, reports: Reports | None = None) -> Audit:
    """The audit of a network without a plan: against the regular design that explains it best."""
    found, design, absent = completed(discovery, infer(discovery))
    pricing = Pricing(found, design, price_of(found, catalogs.load()))
    seen, places = evidence(discovery, reports), BlockPlaces(design)
    listed = differences(found, design, absent) + [placed(found, places, one) for one in seen.symptoms]
    findings = in_order([pricing.priced(finding) for finding in listed])
    left = pricing.left(findings)
    figures = _design(found, design, pricing, findings) | {"loss": left[0], "usd_per_month": pricing.price.usd(left[0])}
    problems = discovery.problems + seen.problems
    return Audit(tuple(findings), figures | seen.figures, tuple(left[1:]), problems, discovery)


def audit_plan(discovery: NetworkTable, draft: Draft, reports: Reports | None = None) -> Audit:
    """The audit of a network against the plan of a scenario; by its shape where it has other names.

    Raises:
        InputError: The scenario's cluster cannot be built.
    """
    from railyard.ask.audit.planned import PlanPricing, expected

    there = expected(draft, discovery)
    if there is None:
        blind = audit(discovery, reports)
        words = f"no name of a device or port is in the plan `{draft.title}`: the design was inferred instead"
        return replace(blind, design=blind.design | {"doubts": [words, *blind.design["doubts"]]})
    return _against(discovery, PlanPricing(draft, there), reports)


def audit_documented(discovery: NetworkTable, papers: NetworkTable, reports: Reports | None = None) -> Audit:
    """The audit of a network against papers, such as NetBox's cables; priced by a job of reference.

    Raises:
        InputError: No device and port of the papers is in the network.
    """
    from railyard.ask.audit.against import matched
    from railyard.ask.audit.planned import PlannedNetwork, PlanPricing

    if not matched(papers, discovery):
        raise InputError(
            "none of its devices and ports is in the discovered network", file=papers.file,
            hint="device and port names must match those that the devices report",
        )  # fmt: skip
    rows = np.arange(len(papers.ports))
    audit = _against(discovery, PlanPricing(None, PlannedNetwork(None, papers, rows, {papers.file: ""})), reports)
    return replace(audit, problems=papers.problems + audit.problems)


def _against(discovery: NetworkTable, pricing: PlanPricing, reports: Reports | None) -> Audit:
    from railyard.ask.audit.against import compare, silent
    from railyard.ask.audit.planned import LEFT

    there = pricing.there
    seen = evidence(discovery, reports, there.plan)
    listed = compare(there.discovery, discovery, there.addressed) + [
        pricing.difference(discovery, one) for one in seen.symptoms
    ]
    pairs = [(pricing.priced(one), one) for one in listed]
    pairs.sort(key=lambda pair: _rank(pair[0]))
    differences = [one for _, one in pairs]
    loss, usd = pricing.together(differences)
    left = [pricing.together(differences[done:])[0] for done in range(1, len(pairs) + 1)] if len(pairs) <= LEFT else []
    figures = _design(there.discovery, pricing.design, pricing.reference, ()) | {
        "source": "planned",
        "networks": there.networks,
        "cables": len(there.discovery.ports),
        "kinds": dict(Counter(finding.kind for finding, _ in pairs)),
        "uneven": uneven(discovery),
        "remarks": there.plan.remarks if there.plan is not None else [],
        "loss": loss,
        "usd_per_month": usd,
        "assumptions": pricing.words if pricing.step else pricing.words + pricing.reference.price.words,
    }
    problems = _unreported(there.discovery, discovery, silent(there.discovery, discovery))
    problems += discovery.problems + seen.problems
    listed_findings = tuple(finding for finding, _ in pairs)
    cables = tuple(_rows(there, one) for one in differences) if there.plan is not None else ()
    return Audit(listed_findings, figures | seen.figures, tuple(left), problems, there.discovery, cables)


def _unreported(planned: NetworkTable, found: NetworkTable, cables: Mapping[str, Sequence[int]]) -> tuple[Problem, ...]:
    """Switches that sent no report, with what is unknown of them: no fault, since nobody could see it."""
    out = []
    for name, numbers in cables.items():
        far = {planned.label[device] for device in planned.ends[list(numbers)].ravel().tolist()} - {name}
        hosts = sum(planned.kind[planned.label.index(one)] == "host" for one in far)
        parts = [(hosts, "host"), (sum(planned.switch[planned.ends[one]].all() for one in numbers), "uplink")]
        words = " and ".join(counted(count, what) for count, what in parts if count)
        out.append(
            Problem(f"{name} sent no report: its {words} {'are' if len(far) > 1 else 'is'} unknown", file=found.file)
        )
    return tuple(out)


def _rows(there: PlannedNetwork, difference: PlanDifference) -> tuple[int, ...]:
    numbers = [*difference.lost, *(number for number, _ in difference.slow)]
    return tuple(there.rows[numbers].tolist())


def uneven(found: NetworkTable) -> list[dict[str, Any]]:
    """Switches that reach the tier above over unequally many cables: equal-cost paths of unequal width."""
    level = levels(found)
    ends = found.ends[found.between]
    above: dict[int, Counter[int]] = {}
    for one, other in ends.tolist():
        low, high = (one, other) if level[one] < level[other] else (other, one)
        if 0 < level[low] < level[high]:
            above.setdefault(low, Counter())[high] += 1
    return [
        {"switch": found.label[low], "widths": sorted(count.values())}
        for low, count in sorted(above.items())
        if len(set(count.values())) > 1
    ]


def in_order(findings: Sequence[AuditFinding]) -> list[AuditFinding]:
    """The most expensive first; equals by name."""
    return sorted(findings, key=_rank)


def _rank(one: AuditFinding) -> tuple[float, float, bool, str, str]:
    """Equal prices by the most that it may cost; what has no price before what costs nothing."""
    return -one.usd_per_month, -(one.band[1] if one.band else 0.0), not one.unpriced, one.a, one.b


def _design(
    found: NetworkTable, design: InferredDesign, pricing: Pricing, findings: Sequence[AuditFinding]
) -> dict[str, Any]:
    return {
        "source": "inferred",
        "regular": design.regular,
        "doubts": list(design.doubts),
        "tiers": {tier_name(tier): design.count(tier) for tier in range(1, int(design.level.max(initial=0)) + 1)},
        "host_ports": len(found.access),
        "blocks": [
            {
                "lower": tier_name(block.tier),
                "switches": [len(block.low), len(block.high)],
                "cables_a_pair": block.trunk,
                "cables": int(block.meant.sum()),
                "found": int(block.found.sum()),
                "rate_bps": block.rate_bps,
                "worst_shift_load": _worst(pricing, number, findings),
                "worst_shift_load_designed": _worst(pricing, number, None),
            }
            for number, block in enumerate(design.blocks)
        ],
        "rails": [len(group.leaf_of) for group in design.groups],
        "kinds": dict(Counter(finding.kind for finding in findings)),
        "accelerators": pricing.price.accelerators,
        "uneven": uneven(found),
        "assumptions": pricing.price.words,
    }


def _worst(pricing: Pricing, number: int, findings: Sequence[AuditFinding] | None) -> list[float] | None:
    """Least and most over the shifts of the flows on the fullest cable; None where it is too large to be played.

    As found: on tables made for what is there, as a subnet manager makes them.
    """
    site = pricing.sites[number]
    if not site.played_whole:
        return None
    mine = [change for one in findings or () if one.block == number for change in one.changes]
    played = site.designed if findings is None else site.found(mine)
    return [float(played.worst.min()), float(played.worst.max())]


@dataclass(frozen=True)
class AuditSources:
    """Sources about a network.

    Attributes:
        netbox: Its cables: alone as found, else as what was planned.
        plan: A scenario: what was planned; None: the design is inferred.
        reports: What devices say: counters, tables, BGP, settings, parts.
    """

    ibnetdiscover: Path | None = None
    lldp: Path | None = None
    netbox: Path | None = None
    plan: Path | None = None
    reports: Sequence[Path] = ()


def audit_found(found: AuditSources) -> tuple[Audit, AuditAnswer]:
    """Faults, the most expensive first, and the same as a document.

    Raises:
        InputError: There is not exactly one discovery, it holds nothing, or the plan is wrong.
    """
    draft = None if found.plan is None else load.load(found.plan)
    there, documented = discovered(found.ibnetdiscover, found.lldp, found.netbox, planned=draft is not None)
    domain = there.domain if draft is not None or (documented is not None and not documented.domain) else ""
    there = there.without_domain() if domain else there
    said = gather(found.reports, there.label) if found.reports else None
    if draft is not None:
        audited = audit_plan(there, draft, said)
    else:
        audited = audit(there, said) if documented is None else audit_documented(there, documented, said)
    if domain:
        words = f"names were compared without their domain {domain}, which the plan's do not have"
        audited = replace(audited, design=audited.design | {"doubts": [words, *audited.design["doubts"]]})
    name = next(path for path in (found.ibnetdiscover, found.lldp, found.netbox) if path is not None).resolve().name
    return audited, answer_of(audited, name if draft is None else draft.title)
