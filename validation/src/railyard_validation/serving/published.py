"""Deployments that InferenceX published, by the load that they are run under: what its labels leave out.

`data/inferencex_recipes.csv` has each recipe of split deployments of SemiAnalysisAI/InferenceX's configurations
(Apache-2.0, December 2025 to April 2026) with the users it is run with and the days it stood;
`validation/tools/serving_recipes.py` writes it. Recipes with and without drafted tokens are mostly run with
different numbers of users, so that a label's users tell which of them a row is of.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard_validation.serving.table import Row

_DATA = files("railyard_validation") / "data" / "inferencex_recipes.csv"
# A recipe's runs are some days older than the day on which it was merged; a run of that day may still have the old one.
_BEFORE, _AFTER = timedelta(days=14), timedelta(days=3)
_MODELS = {"dsr1": "deepseek", "gptoss": "gpt-oss", "kimik2.5": "kimi-k2"}


@dataclass(frozen=True, slots=True)
class Side:
    """Replicas of one side: how many, accelerators of each, ranks of experts, whether attention has copies."""

    workers: int
    tp: int
    ep: int
    copies: bool


@dataclass(frozen=True, slots=True)
class Published:
    """One recipe.

    Attributes:
        key: Model, precision, engine, device, tokens of prompts and of answers.
        drafts: Tokens drafted in each iteration.
        prefill, decode: Its two sides.
        users: It is run with.
        first, last: Days between which it stood.
    """

    key: tuple[str, str, str, str, float, float]
    drafts: int
    prefill: Side
    decode: Side
    users: tuple[float, ...]
    first: date
    last: date

    @property
    def accelerators(self) -> int:
        """Of both sides."""
        return self.prefill.workers * self.prefill.tp + self.decode.workers * self.decode.tp


@cache
def _all() -> dict[tuple[str, str, str, str, float, float], list[Published]]:
    found: dict[tuple[str, str, str, str, float, float], list[Published]] = {}
    for row in csv.DictReader(_DATA.read_text(encoding="utf-8").splitlines()):
        key = (
            _MODELS[row["model"]],
            row["precision"],
            row["engine"],
            row["device"],
            float(row["isl"]),
            float(row["osl"]),
        )
        users = tuple(float(number) for number in row["users"].split())
        days = date.fromisoformat(row["first"]), date.fromisoformat(row["last"])
        sides = _side(row, "prefill"), _side(row, "decode")
        found.setdefault(key, []).append(Published(key, int(row["drafts"]), *sides, users, *days))
    return found


def _side(row: dict[str, str], name: str) -> Side:
    workers, tp, ep, copies = (int(row[f"{name}_{field}"]) for field in ("workers", "tp", "ep", "copies"))
    return Side(workers, tp, ep, bool(copies))


def published(row: Row, users: float, degrees: tuple[int, int, int]) -> list[Published]:
    """The recipes that a row can be of, without copies of attention first; none where no published one is run like it.

    Args:
        row: Measured.
        users: In its loop.
        degrees: Of its label: accelerators of a prefill replica, its ranks of experts, accelerators of a decoding one.
            InferenceX's first labels have those of both sides together in either place.
    """
    day = _day(row.get("date"))
    if day is None:
        return []
    ahead, experts, behind = degrees
    near = [
        each
        for each in _all().get(_key(row), ())
        if users in each.users
        and ((ahead, behind) == (each.prefill.tp, each.decode.tp) or ahead == behind == each.accelerators)
        and each.first - _BEFORE <= day <= each.last + _AFTER
    ]
    near = [each for each in near if each.prefill.ep == experts] or near
    # Where a recipe stood that day, or up to some days before, what came later is another one.
    standing = [each for each in near if each.first <= day]
    return sorted(standing or near, key=lambda each: each.decode.copies)


def _key(row: Row) -> tuple[str, str, str, str, float, float]:
    named = row.get("model").lower()
    model = next((own for own in _MODELS.values() if own in named), named)
    engine = "sglang" if row.get("framework").startswith("sglang") else "trtllm"
    device = row.get("accelerator").split("_", maxsplit=1)[0].lower()
    return model, row.get("precision"), engine, device, row.real.get("isl", 0.0), row.real.get("osl", 0.0)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None
