"""Scenarios to start from: the commented one of `railyard init`, and short ones that differ in what they ask."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from railyard.face.web.documents import Template

_ABOUT = (
    ("fabrics", "Six fabrics for one training job: which is worth its price?"),
    ("oversubscription", "How many uplinks does this job pay for?"),
    ("serving", "A model that answers requests: latency, goodput, dollars a million tokens."),
)


@cache
def templates() -> list[Template]:
    """Each with its text."""
    commented = files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")
    return [
        *(Template(name=name, about=about, text=_text(name)) for name, about in _ABOUT),
        Template(name="commented", about="Every part of a scenario, explained where it stands.", text=commented),
    ]


def _text(name: str) -> str:
    return files("railyard.face.web").joinpath("starters", f"{name}.yaml").read_text(encoding="utf-8")
