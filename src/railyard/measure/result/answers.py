"""Documents of commands other than `run`, as stored and as shown by reports and the web page."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, TypeAdapter, ValidationError

from railyard.kit.errors import InputError, Problem
from railyard.measure import numbers
from railyard.measure.result.choices import PlacementAnswer, PlanAnswer, TuneAnswer
from railyard.measure.result.measured import CalibrationAnswer, ScaleAnswer
from railyard.measure.result.network import Picture, PicturePlace
from railyard.measure.result.section import AnswerDocument, Count, Figures, KeyFigure, Lists, Share, Values


class CableEnds(Figures):
    """A cable by its two ends."""

    a: str = Field(description="device and port")
    b: str = Field(description="device and port")


class FindingRow(Figures):
    """A finding: what is wrong, where, and what it costs."""

    model_config = ConfigDict(populate_by_name=True)

    kind: str = Field(description="missing, swapped, degraded, ...")
    about: str = Field(description="what that kind is")
    a: str = Field(description="device and port of one end")
    b: str = Field(description="device and port of the other end")
    detail: str = Field(description="what to do")
    loss: float | None = Field(
        description="share of the accelerators' time that it costs alone, or of the cluster's price where absent"
        " parts cost more (`priced_by` says so); null: no price"
    )
    usd_per_month: float | None = Field(description="the same in dollars")
    loss_band: tuple[float, float] | None = Field(default=None, description="least and most; absent where it is exact")
    priced_by: str | None = Field(
        default=None, description="engine and load behind it, where not the audit's usual ones"
    )
    unpriced: str | None = Field(default=None, description="why it has no price; absent where it has one")
    worst_load: float = Field(description="flows on the fullest cable of the worst shift permutation, with it alone")
    all_reduce: float = Field(description="time of an all-reduce with it over that without")
    step_s: float | None = Field(default=None, description="step of the scenario with it alone, s; absent without one")
    with_: CableEnds | None = Field(
        default=None, validation_alias="with", serialization_alias="with", description="second cable of a swap"
    )
    place: PicturePlace = Field(description="on the picture")
    cables: tuple[Count, ...] = Field(description="rows of the plan's cables; empty without a plan")


class AuditAnswer(AnswerDocument):
    """Findings in a network as found, most expensive first."""

    format: Literal["railyard-audit/1"] = Field(description="of this document")
    name: str = Field(description="of what was read")
    version: str = Field(description="of Railyard")
    findings: tuple[FindingRow, ...] = Field(description="most expensive first")
    design: Values = Field(description="against what, in figures")
    loss: float = Field(description="share of the accelerators' time that all findings cost together")
    usd_per_month: float = Field(description="the same in dollars")
    loss_after_repair: tuple[float, ...] = Field(description="what is left after each repair, in order")
    usd_after_repair: tuple[float, ...] = Field(description="the same in dollars a month")
    problems: tuple[str, ...] = Field(description="what of the input could not be read")
    picture: Picture | None = Field(description="of the network; null where no tiers were made out")

    @property
    def blind(self) -> bool:
        """Whether no fault was found because no design was: nothing stood against which to check."""
        design = self.design
        return bool(not self.findings and design.get("source") == "inferred" and design.get("doubts")) and not (
            design.get("blocks")
        )

    def sentence(self) -> str:
        """The answer in one sentence."""
        doubts = self.design.get("doubts")
        if self.blind:
            return "The design could not be inferred, so no cable between switches was checked; give --plan."
        if not self.findings:
            unsure = (len(doubts) if isinstance(doubts, list | tuple) else 0) + len(self.problems)
            points = f"; {numbers.counted(unsure, 'point')} {'is' if unsure == 1 else 'are'} uncertain"
            return f"No fault was found{points if unsure else ''}."
        first, many = self.findings[0], len(self.findings) > 1
        count = f"{len(self.findings):,} faults cost" if many else "One fault costs"
        share = "no price" if first.usd_per_month is None else f"${first.usd_per_month:,.0f}"
        cost = f"{count} ${self.usd_per_month:,.0f} a month, {numbers.percent(self.loss)} of accelerator time; repair"
        needed = next(
            (done for done, usd in enumerate(self.usd_after_repair, 1) if usd < GAINS * self.usd_per_month), 1
        )
        if needed == 1:
            return f"{cost} first: {first.kind} at {short_name(first.a)} ({share})."
        saved = f"${self.usd_per_month - self.usd_after_repair[needed - 1]:,.0f}"
        places = [short_name(one.a) for one in self.findings[:needed]]
        more = f" and {needed - MOST_STEPS} more" if needed > MOST_STEPS else ""
        return (
            f"{cost} first, together: {', '.join(places[:MOST_STEPS])}{more} ({saved}; the first alone saves nothing)."
        )

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """Faults, their cost, and what the first repairs save."""
        if not self.findings:
            return ()
        priced = sum(bool(finding.usd_per_month) for finding in self.findings)
        cost, left = f"{numbers.dollars(self.usd_per_month)} a month", self.usd_after_repair
        half = next((done for done, usd in enumerate(left, 1) if usd <= self.usd_per_month / 2), 0)
        saved = numbers.dollars(self.usd_per_month - left[half - 1]) if half else ""
        repairs = (KeyFigure("First repairs", numbers.counted(half, "fault"), f"save {saved} a month"),)
        return (
            KeyFigure("Faults", f"{len(self.findings):,}", f"{priced:,} have a cost of their own"),
            KeyFigure("Cost", cost, f"{numbers.percent(self.loss)} of accelerator time"),
            *(repairs if half and self.usd_per_month > 0 else ()),
        )

    def lists(self) -> Lists:
        """The first faults to repair."""
        steps = tuple(
            f"{short_name(one.a)}: {one.kind}, {one.detail or one.about}." for one in self.findings[:MOST_STEPS]
        )
        return (("Repair first", steps),) if steps else ()


GAINS = 0.995
"""Share of the cost below which repairs have gained."""

MOST_STEPS = 3
"""Repairs of the first screen."""


_FABRIC_NAME = re.compile(r"MF\d+;([^:\[]+)(?::[^\[]*)?")
"""`MF0;leaf-1:MQM9701/U1`, as InfiniBand switches call themselves: system, name, model and unit."""


def short_name(text: str) -> str:
    """The text with short names of InfiniBand switches: `leaf-1[40]` for `MF0;leaf-1:MQM9701/U1[40]`."""
    return _FABRIC_NAME.sub(r"\1", text)


NOT_KNOWN = "The measurements do not tell which part is to blame, if any"

ALL_RANKS = "all ranks"
"""The part where work is spread unevenly, on other ranks in every step."""

EVEN = 0.5
"""Confidence below which the part that is named first is more likely well than not."""


class SuspectRow(Figures):
    """A part that is named."""

    part: str = Field(description="as faults of scenarios write it")
    kind: str = Field(
        description="accelerator, host, nic, cable, switch, stage, rank, software; sequences or experts: no bad part,"
        " but work that is unevenly spread"
    )
    confidence: Share = Field(description="0 to 1")
    pattern: Literal["constant", "intermittent"] = Field(description="slow in every step, or in some")
    slow_steps: tuple[int, ...] = Field(
        description="in which steps, as traces number them (from 0 where nothing marks them); empty where steps were"
        " not distinguished"
    )
    evidence: str = Field(description="what is slow, by how much and in which steps, in words")
    usd_per_hour: float | None = Field(description="what it costs; null where no price is known")
    place: PicturePlace | None = Field(default=None, description="on the picture; absent without a cluster")


class TestStep(Figures):
    """A test that would settle it."""

    run: str = Field(description="what to do")
    expected: str = Field(description="the result of a healthy system")
    otherwise: str = Field(description="what it means where that does not come out")


HOURS_OF_MONTH = 24 * 30


def _confidence(one: SuspectRow) -> str:
    """`99 % sure`."""
    return f"{100 * one.confidence:.0f} % sure"


class DiagnosisAnswer(AnswerDocument):
    """The part to blame, if any."""

    format: Literal["railyard-diagnosis/1"] = Field(description="of this document")
    name: str = Field(description="of what was looked at")
    version: str = Field(description="of Railyard")
    verdict: tuple[SuspectRow, ...] = Field(description="parts, the surest first")
    unknown: bool = Field(
        description="whether something is wrong that no single part explains, or too little was measured to say that"
        " nothing is wrong"
    )
    missing_ranks: tuple[int, ...] = Field(description="ranks of the job without a trace")
    what_if: Values = Field(description="S and similar figures of a replay; empty without one")
    notes: tuple[str, ...] = Field(description="what stands between and a surer answer")
    steps: tuple[TestStep, ...] = Field(description="tests that would settle it, in order")
    picture: Picture | None = Field(description="of the cluster's network; null without a cluster")

    def sentence(self) -> str:
        """The answer in one sentence: which part, what is slow by how much, in which steps, and how sure that is."""
        if not self.verdict:
            why = f": {self.notes[0]}" if self.notes else ""
            return f"{NOT_KNOWN if self.unknown else 'Nothing is wrong'}{why.removesuffix('.')}."
        first, *others = self.verdict
        price = "" if first.usd_per_hour is None else f"; it costs ${first.usd_per_hour:,.0f} an hour"
        part = f"{first.part[:1].upper()}{first.part[1:]}"
        said = f"{part} {'are' if first.part == ALL_RANKS else 'is'} to blame ({first.kind}, {_confidence(first)})"
        if self.unknown and first.confidence < EVEN:
            said = f"No part is certain; it may be {first.part} ({first.kind}, {_confidence(first)})"
        also = (
            f"; also named: {', '.join(f'{one.part} ({one.kind}, {_confidence(one)})' for one in others)}"
            if others
            else ""
        )
        return f"{said}: {first.evidence}{price}{also}."

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """Confidence and cost of the first part, slowdown of the job."""
        if not self.verdict:
            return ()
        first, slower, price = self.verdict[0], self.what_if.get("S"), self.verdict[0].usd_per_hour
        cost = "not known without the cluster" if price is None else f"{numbers.dollars(price)} an hour"
        steps = "every step" if first.pattern == "constant" else numbers.counted(len(first.slow_steps), "step")
        month = "" if price is None else f"{numbers.dollars(price * HOURS_OF_MONTH)} in 30 days"
        found = [
            KeyFigure("Confidence", f"{100 * first.confidence:.0f} %", f"{first.kind}, in {steps}"),
            KeyFigure("Cost", cost, month),
        ]
        if isinstance(slower, float):
            found.append(KeyFigure("Slowdown of the job", f"{slower:.3f} x", "over its time without it"))
        return tuple(found)

    def lists(self) -> Lists:
        """The test that settles it, and what is missing for a surer answer."""
        gone = f"No trace of {numbers.counted(len(self.missing_ranks), 'rank')}, first rank "
        missing = (f"{gone}{self.missing_ranks[0]}.",) if self.missing_ranks else ()
        doubts = (*missing, *(f"{note[:1].upper()}{note[1:].removesuffix('.')}." for note in self.notes))
        return (("What would make this surer", doubts),) if doubts else ()


class CheckRow(Figures):
    """One assertion of one variant."""

    assertion: str = Field(description="as the scenario writes it")
    variant: str = Field(description="the variant that was judged")
    found: str = Field(description="what was found, in words")
    holds: bool = Field(description="whether it holds")
    remark: str | None = Field(default=None, description="further remark; absent if there is none")


class CheckAnswer(AnswerDocument):
    """Every assertion of a scenario, judged of every variant."""

    format: Literal["railyard-check/1"] = Field(description="of this document")
    name: str = Field(description="of the scenario")
    version: str = Field(description="of Railyard")
    stopped: bool = Field(description="whether it was stopped before its end: only some assertions are judged then")
    holds: bool = Field(description="whether all hold; false where it was stopped")
    checks: tuple[CheckRow, ...] = Field(description="in the order of the scenario, variant by variant")

    def sentence(self) -> str:
        """The answer in one sentence."""
        failed, count = [row for row in self.checks if not row.holds], len(self.checks)
        of = f"{count:,}{' judged' if self.stopped else ''} assertion{'s' if count != 1 else ''}"
        early = "Stopped before the end: " if self.stopped else ""
        if not failed:
            said = f"all {of} pass" if count != 1 else f"the {of.removeprefix('1 ')} passes"
        else:
            first = f"{failed[0].assertion} ({failed[0].found})"
            said = f"{len(failed)} of {of} {'fails' if len(failed) == 1 else 'fail, first'}: {first}"
        return f"{early}{said if early else said[:1].upper() + said[1:]}."

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """How many assertions pass and fail."""
        passed = sum(row.holds for row in self.checks)
        where = f"of {len(self.checks):,} on {numbers.counted(len({row.variant for row in self.checks}), 'variant')}"
        return KeyFigure("Pass", f"{passed:,}", where), KeyFigure("Fail", f"{len(self.checks) - passed:,}")


Answer = (
    PlanAnswer
    | DiagnosisAnswer
    | TuneAnswer
    | AuditAnswer
    | CheckAnswer
    | PlacementAnswer
    | ScaleAnswer
    | CalibrationAnswer
)

NAMES: dict[type[Answer], str] = {
    PlanAnswer: "plan",
    DiagnosisAnswer: "diagnosis",
    TuneAnswer: "tune",
    AuditAnswer: "audit",
    CheckAnswer: "check",
    PlacementAnswer: "placement",
    ScaleAnswer: "scale",
    CalibrationAnswer: "calibration",
}
"""File names of answers: `plan.json`, and its page `plan.html`."""

_ANY: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Discriminator("format")], config=ConfigDict(defer_build=True))


def answer_from(text: str | bytes) -> Answer:
    """The answer that a JSON text holds.

    Raises:
        InputError: It is none.
    """
    try:
        return _ANY.validate_json(text)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_input=False)[:20]
        problems = [Problem(row["msg"], key=".".join(map(str, row["loc"]))) for row in rows]
        raise InputError.many(problems) from None


class DiffSide(Figures):
    """One of the two results."""

    file: str = Field(description="as it was given")
    name: str = Field(description="of the study")
    version: str = Field(description="of Railyard; empty where the file does not say")


class DiffFigure(Figures):
    """A figure that moved by more than rounding."""

    variant: str = Field(description="of the run, or design of the plan; empty where there is one")
    figure: str = Field(description="in words")
    path: str = Field(description="within the variant in the result's JSON; rows of lists by what they are called")
    unit: str = Field(description="of the values; share: 0 to 1")
    old: float = Field(description="before")
    new: float = Field(description="after")
    change: float = Field(description="new minus old")
    share: float | None = Field(description="change over the old value; null where that is 0")


class DiffOneSided(Figures):
    """A headline figure that only one of the two results has."""

    variant: str = Field(description="of the run, or design of the plan; empty where there is one")
    figure: str = Field(description="in words")
    path: str = Field(description="within the variant in the result's JSON")
    unit: str = Field(description="of the value; share: 0 to 1")
    old: float | None = Field(description="before; null where only the new result has it")
    new: float | None = Field(description="after; null where only the old result has it")
    absent: bool = Field(description="whether the other result lacks the key; it has null there otherwise")


class DiffChoice(Figures):
    """A word that heads the result and is another now."""

    variant: str = Field(description="empty: of the whole result")
    what: str = Field(description="leading variant, best design, outcome, bottleneck, ...")
    old: str = Field(description="before")
    new: str = Field(description="after")


class DiffPart(Figures):
    """A part of the step or of the wait for the first token that moved."""

    variant: str = Field(description="of the run")
    part: str = Field(description="cause, with the group of ranks where there is one")
    old: float = Field(description="before, s")
    new: float = Field(description="after, s")
    change: float = Field(description="new minus old, s")


class DiffCause(Figures):
    """Something that was changed, and that figures follow from."""

    kind: Literal[
        "version",
        "engine",
        "seed",
        "scenario",
        "catalogue",
        "layout",
        "algorithm",
        "default",
        "model",
        "software",
        "program",
    ] = Field(
        description="software: constants of a software profile; model: what engines leave out; program: no input"
        " differs, so Railyard itself computes this differently"
    )
    what: str = Field(description="key of the scenario, part and field of the catalogue, ...")
    old: str | None = Field(description="before, a catalogue value with its source; null where there was none")
    new: str | None = Field(description="after")
    variant: str = Field(description="empty: all variants")


class DiffRenamed(Figures):
    """A key that has another name in the new file, and the same value."""

    old: str = Field(description="path in the old file")
    new: str = Field(description="path in the new file")


class DiffAnswer(Figures):
    """Figures that moved between two results, and why."""

    format: Literal["railyard-diff/1"] = Field(description="of this document")
    conclusion: str = Field(description="the answer in one line")
    old: DiffSide = Field(description="the first result")
    new: DiffSide = Field(description="the second result")
    figures: tuple[DiffFigure, ...] = Field(description="that moved, those that head results first")
    one_sided: tuple[DiffOneSided, ...] = Field(description="headline figures that only one result has")
    choices: tuple[DiffChoice, ...] = Field(description="words that head results and changed")
    parts: tuple[DiffPart, ...] = Field(description="of the step that moved, by variant, the most first")
    causes: tuple[DiffCause, ...] = Field(description="what differs between the two")
    only_old: tuple[str, ...] = Field(description="variants and sections that only the old result has")
    only_new: tuple[str, ...] = Field(description="variants and sections that only the new result has")
    renamed: tuple[DiffRenamed, ...] = Field(description="keys with another name and the same value")
    equal: Count = Field(description="values of both that are equal to the last digit")
    differ: Count = Field(description="values of both that are not")
