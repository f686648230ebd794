"""A finished run: its result as tables, words and a card for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from railyard.face.api.view import View
    from railyard.measure.result.result import Result

#: The tables of a result and where in a variant their rows stand.
TABLES = {
    "variants": "one row a variant: the figures to compare",
    "tax": "what each network takes of the step, by cause, and what no network changes",
    "time": "where the step goes, by cause, communicator and phase",
    "ranks": "GPU utilization of each rank (sampled beyond 4,096)",
    "tiers": "load of each tier of links",
    "links": "the most loaded links",
    "collectives": "each collective: size, algorithm, time alone and as it was",
    "memory": "memory of each pipeline stage",
    "power": "watts by component",
    "capex": "dollars by component",
    "cpmt": "cost per million tokens by part",
    "bottleneck": "what each resource would bring if it were better",
    "sources": "where the numbers come from",
    "tasks": "every task of the step with its start and end (from timeline.parquet)",
}

#: Further tables of a serving run.
SERVED_TABLES = {
    "requests": "every request with its latencies (from requests.parquet, first variant)",
    "capacity": "every load that was tried",
    "replicas": "each replica",
}

#: Further tables of a cluster in time.
OPERATED_TABLES = {
    "tenants": "each tenant: jobs, waits, GPU time, dollars",
}


#: Further tables of work outside one hall.
WIDE_TABLES = {
    "clients": "each device, link and region: population, there, selected, heard, bias",
    "sites": "each site that trains",
    "places": "each place that may answer",
}


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        name: Of the scenario.
        result: Everything measured, typed: `result.text()` is what `result.json` holds.
        folder: The folder of the run, None when nothing was written.
    """

    name: str
    result: Result
    folder: Path | None = None

    @property
    def variants(self) -> list[str]:
        """The names of the variants, in the order of the comparison."""
        return [variant.name for variant in self.result.variants]

    @property
    def report_path(self) -> Path | None:
        """The report, None when no folder was written."""
        return None if self.folder is None else self.folder / "report.html"

    def table(self, name: str) -> pl.DataFrame:
        """A table of the result, all variants below each other.

        Args:
            name: One of `railyard.face.api.TABLES`; of a serving run also of `SERVED_TABLES`, of a cluster in time of
                `OPERATED_TABLES`, of clients, sites and the edge of `WIDE_TABLES`.

        Raises:
            InputError: There is no such table, or the folder of the run is gone.
        """
        from railyard.face.api import frames

        tables = TABLES | SERVED_TABLES | OPERATED_TABLES | WIDE_TABLES
        if name not in tables:
            raise InputError(
                f"there is no table `{name}`", found=name, allowed=list(tables), hint=did_you_mean(name, tables)
            )
        return frames.table(self.result, self.folder, name)

    def explain(self) -> str:
        """Where the step goes and what would help, variant by variant, as text."""
        from railyard.face.api import words

        return words.explain(self.result)

    def __repr__(self) -> str:
        from railyard.face.api import words

        return words.card(self.result, self.report_path)

    def view(self, *, height: int = 800) -> View:
        """The report as a widget of a notebook: the same pictures, in a frame that needs no server and no network.

        Args:
            height: Of the frame, pixels.
        """
        from railyard.face.api.view import View
        from railyard.face.report import report_html

        return View(report_html(self.result), height)

    def _repr_html_(self) -> str:
        from railyard.face.api import notebook

        return notebook.card(self.result, self.report_path)
