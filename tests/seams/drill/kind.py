"""Builder, run, measures and result of the drill."""

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.section import Figures
from railyard.measure.result.variants import BaseVariant, variants
from railyard.work.study.kind import MeasuredVariant, StudyKind, kinds


class DrillFigures(Figures):
    """What was found."""

    seconds: float = Field(description="until the last one has it, s")
    each_s: float = Field(description="of one transfer, s")


@variants.register("drill")
class DrillVariant(BaseVariant):
    """A drill."""

    kind: ClassVar[str] = "drill"
    drill: DrillFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


def prepare(variants, _engine):
    from railyard.work.study import compose

    clusters = [compose.cluster_of(one.draft, compose.catalog_of(one.draft)) for one in variants]
    return list(zip(variants, clusters, strict=True))


def run(prepared, control):
    variant, cluster = prepared
    control.progress("drill", 0.5)
    each_s = 8 * variant.draft.scenario.work("drill").size / cluster.plans["back_end"].link_bps
    return variant, each_s, cluster.ranks


def measure(outcome):
    variant, each_s, ranks = outcome
    figures = DrillFigures(seconds=ranks * each_s, each_s=each_s)
    found = DrillVariant(
        name=variant.name,
        settings=dict(variant.settings),
        drill=figures,
        warnings=("one after another",),
        digest="none",
    )
    return MeasuredVariant(found)


def write(folder, _outcome, found):
    (folder / "drill.txt").write_text(f"{found.variant.drill.seconds}\n")


kinds.add(
    "drill",
    StudyKind(name="drill", prepare=prepare, engine=lambda _one: "closed form", run=run, measure=measure, write=write),
)
