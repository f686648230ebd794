"""Bills of materials of published reference designs, item by item: published, ours, and why they differ."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from railyard.cluster import bill_of
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study import compose
from railyard_validation.csv_rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.cluster.bill import BillOfMaterials

COLUMNS = ("document", "table", "case", "scenario", "set", "item", "published", "ours", "cause")
TERM = re.compile(r"(?:(-?[\d.]+) )?([^/]+)/([^/]+)/([^/]+)(?:/([^/]+))?")


@dataclass(frozen=True)
class Item:
    """One item of a published bill.

    Attributes:
        document: That prints it.
        table: Of the document.
        case: Size or part of the design.
        item: In words.
        published: Count.
        ours: Count of our design of it; None where nothing of ours is that item.
        cause: Why they differ; empty where they do not.
    """

    document: str
    table: str
    case: str
    item: str
    published: float
    ours: float | None
    cause: str

    @property
    def difference(self) -> float:
        """Ours less the published count."""
        return (self.ours or 0.0) - self.published


def compare(table: Path) -> list[Item]:
    """Every item of a table, in its order.

    Raises:
        InputError: A column is missing, a scenario cannot be built, or a sum cannot be read.
    """

    def item(cells: Mapping[str | None, Any], line: int, _header: list[str]) -> Item:
        row = {name: str(cells.get(name) or "") for name in COLUMNS}
        try:
            published = float(row["published"])
        except ValueError:
            raise InputError(
                "expected a count", file=table, line=line, key="published", found=row["published"]
            ) from None
        bill = _bill(table.parent / row["scenario"], row["set"])
        ours = counted(bill, row["ours"]) if row["ours"] else None
        return Item(row["document"], row["table"], row["case"], row["item"], published, ours, row["cause"])

    return read_rows(table, COLUMNS, item)


@cache
def _bill(scenario: Path, sets: str) -> BillOfMaterials:
    draft = load.load(scenario, sets.split())
    return bill_of(compose.cluster_of(draft, compose.catalog_of(draft)))


def counted(bill: BillOfMaterials, terms: str) -> float:
    """The sum of rows of a bill.

    Args:
        bill: The bill.
        terms: `WEIGHT kind/network/tier/item`, added with ` + `; the weight (also less than 0) and the item may be left
            out, `*` stands for anything.

    Raises:
        InputError: A term is none.
    """
    total = 0.0
    for term in terms.split(" + "):
        read = TERM.fullmatch(term)
        if read is None:
            raise InputError(
                "expected `kind/network/tier`", key="ours", found=term, hint="as in `0.5 optic/storage/nic`"
            )
        weight, *wanted = read.groups(default="")
        wanted[3] = wanted[3] or "*"
        total += float(weight or 1) * sum(
            row.count
            for row in bill
            if all(map(fnmatch.fnmatchcase, (row.kind, row.network, row.tier, row.name), wanted))
        )
    return total
