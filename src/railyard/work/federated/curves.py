"""Published rounds to an accuracy, as data: never computed, and quoted with what they were measured on."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from railyard.kit.errors import InputError, did_you_mean

FILE = Path(__file__).parent / "curves.csv"


@dataclass(frozen=True)
class Curve:
    """One published row.

    Attributes:
        name: Of the row.
        algorithm: Of federated learning.
        work: Model, data and how it was spread over clients.
        participants: Clients a round.
        epochs: Of local work.
        batch: Of local work.
        target: What was reached.
        rounds: In which it was.
        source: Paper and table.
    """

    name: str
    algorithm: str
    work: str
    participants: int
    epochs: float
    batch: str
    target: str
    rounds: int
    source: str


@cache
def curves() -> dict[str, Curve]:
    """All rows by name."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["name"]: Curve(
            row["name"],
            row["algorithm"],
            row["work"],
            int(row["participants"]),
            float(row["epochs"]),
            row["batch"],
            row["target"],
            int(row["rounds"]),
            row["source"],
        )
        for row in rows
    }


def curve(name: str) -> Curve:
    """The row of that name.

    Raises:
        InputError: There is none.
    """
    known = curves()
    if name not in known:
        raise InputError(
            f"no published row is called `{name}`",
            key="reach",
            found=name,
            allowed=list(known),
            hint=did_you_mean(name, known),
        )
    return known[name]
