"""Everything that training on sites needs: what a step takes at each, and what is between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, Problem
from railyard.model.flops import model_flops_per_token
from railyard.work.local.distance import Ends, Lines, lines
from railyard.work.local.method import methods
from railyard.work.scenario import load
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import fields_given
from railyard.work.study import compose
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Catalog
    from railyard.catalog.types import Accelerator, Server
    from railyard.work.local.section import LocalSection, SiteSection
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.variants import Variant
    from railyard.work.training.sync.local import LocalUpdates

PLACE = ("workload", "local")
_PS = 1e-12


@dataclass(frozen=True, eq=False)
class Site:
    """One kind of site.

    Attributes:
        section: As written.
        accelerator: Of its servers.
        server: Its servers.
        step_s: An inner step alone.
        origin: `measured`, `MFU` or `simulated`.
        peak_flops: Of all its accelerators in 16 bits.
    """

    section: SiteSection
    accelerator: Accelerator
    server: Server
    step_s: float
    origin: str
    peak_flops: float


@dataclass(frozen=True, eq=False)
class LocalJob:
    """One variant, ready to be computed.

    Attributes:
        variant: Its name, settings and scenario.
        section: As written.
        catalog: Where servers and prices stand.
        parameters: Of the model.
        flop_per_token: Forward and backward.
        method: How sites meet.
        sites: A row a kind.
        lines: What is between kinds.
    """

    variant: Variant
    section: LocalSection
    catalog: Catalog
    parameters: float
    flop_per_token: float
    method: LocalUpdates
    sites: tuple[Site, ...]
    lines: Lines

    @property
    def members(self) -> int:
        """Sites of all kinds."""
        return sum(site.section.count for site in self.sites)

    @property
    def step_tokens(self) -> float:
        """Of one site."""
        return float(self.section.batch * self.section.sequence)


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[LocalJob]:
    """All variants of a scenario, ready to be computed.

    Raises:
        InputError: One of them cannot be; with the place in the scenario.
    """
    del engine  # there is one
    memo = Memo()
    return [_prepared(variant, memo) for variant in variants]


def _prepared(variant: Variant, memo: Memo) -> LocalJob:
    draft = variant.draft
    section = draft.scenario.local
    catalog = memo.get("catalog", draft.scenario.catalog, partial(compose.catalog_of, draft))
    with blaming(draft, *PLACE):
        parameters, flop = _size(draft, section, catalog)
    sites = tuple(_site(draft, number, catalog, flop, memo) for number in range(len(section.sites)))
    ends = [_ends(draft, number, catalog) for number in range(len(section.sites))]
    return LocalJob(
        variant=variant,
        section=section,
        catalog=catalog,
        parameters=parameters,
        flop_per_token=flop,
        method=_method(draft, section),
        sites=sites,
        lines=lines(ends, section.between),
    )


def _size(draft: Draft, section: LocalSection, catalog: Catalog) -> tuple[float, float]:
    """Parameters, and operations of a token."""
    if isinstance(section.model, str):
        model = compose.model_of(draft.folder, section.model, catalog)
        return float(model.parameters()), model_flops_per_token(model, section.sequence)
    flop = section.model.flop_per_token
    return float(section.model.parameters), 6.0 * section.model.parameters if flop is None else flop


def _method(draft: Draft, section: LocalSection) -> LocalUpdates:
    written: Any = section.method
    kind = methods.get(written.kind)
    record = kind(**fields_given(written, kind))
    wrong = record.problems()
    if wrong:
        rows = [
            Problem(words, key=f"method.{name}", found=found, allowed=allowed) for words, name, found, allowed in wrong
        ]
        raise draft.blame(InputError.many(rows), *PLACE)
    return record


def _site(draft: Draft, number: int, catalog: Catalog, flop: float, memo: Memo) -> Site:
    section = draft.scenario.local
    written = section.sites[number]
    with blaming(draft, *PLACE, "sites", str(number)):
        server = catalog.server(written.server)
        accelerator = catalog.accelerator(server.accelerator)
        rate = accelerator.flops.get("bf16") or accelerator.flops.get("fp16") or 0.0
        peak = written.accelerators * rate
        if peak <= 0:
            raise InputError("its accelerator has no rate in 16 bits", key="server", found=written.server)
        if written.step is not None:
            step_s, origin = written.step, "measured"
        elif written.mfu is not None:
            step_s, origin = section.batch * section.sequence * flop / (peak * written.mfu), "MFU"
        else:
            key = [section.model, section.sequence, section.batch, written.server, written.accelerators]
            step_s, origin = memo.get("step", key, partial(simulated_step_s, draft, section, written)), "simulated"
    return Site(written, accelerator, server, step_s, origin, peak)


def simulated_step_s(draft: Draft, section: LocalSection, site: SiteSection) -> float:
    """A step of training on the site's accelerators, with the best layout that fits, as `workload.training` finds it.

    Raises:
        InputError: The site cannot train the model.
    """
    from railyard.work.study import study

    name = section.model if isinstance(section.model, str) else ""
    file = compose.model_file(draft.folder, name)
    values = {
        "name": f"step at {site.name}",
        "catalog": draft.scenario.catalog,
        "cluster": {"accelerators": site.accelerators, "server": site.server},
        "workload": {
            "training": {
                "model": name if file is None else str(file),
                "global_batch": section.batch,
                "sequence": section.sequence,
            }
        },
    }
    if values["catalog"] is None:
        del values["catalog"]
    alone = load.Draft(load.from_values(values, None).scenario, load.from_values(values, None).tree, draft.folder)
    result = study.run(alone, engine="flow", searched=False).result
    return float(result.steps[0].step.seconds)


def _ends(draft: Draft, number: int, catalog: Catalog) -> Ends:
    """The line of a site: as written, or the medians of an access link."""
    site = draft.scenario.local.sites[number]
    place = site.place
    if site.link is None:
        return Ends(site.up, site.up if site.down is None else site.down, 0.0, 0.0, nat=0.0, place=place)
    with blaming(draft, *PLACE, "sites", str(number), "link"):
        link = catalog.access_link(site.link)
    return Ends(
        link.up_bps["p50"],
        link.down_bps["p50"],
        link.rtt_ps["p50"] * _PS,
        link.loss,
        nat=link.nat,
        place=place,
    )
