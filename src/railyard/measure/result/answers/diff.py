"""How two results of the same question differ: what `railyard diff --json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railyard.measure.result.section import Count, Figures


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
    """Which figures moved between two results, and why."""

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
