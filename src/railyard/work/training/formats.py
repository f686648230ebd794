"""How training samples are stored: what a token or an item of each format weighs, and what it costs to prepare.

The figures stand in `data/formats.toml`, each with its source. A scenario may replace any of them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.work.training.spec import Access, DataLoading


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to store samples.

    Attributes:
        name: Key in the file.
        summary: In a few words.
        bytes_per_token: Stored bytes per training token.
        items_per_sequence: Files or records for each sequence, beside its tokens.
        item_size_bytes: Mean stored size of one.
        item_spread: Standard deviation of that size over its mean.
        token_time_ps: Processor time to prepare one token, on one core.
        item_time_ps: Processor time to prepare one item, on one core.
        access: Whether a worker reads ahead through shards or asks for each piece by itself.
        request_size_bytes: Largest single request.
        source: Where sizes and times come from.
        year: Of the source.
        confidence: `measured`, `vendor` or `estimated`.
    """

    name: str
    summary: str
    bytes_per_token: float
    items_per_sequence: float
    item_size_bytes: int
    item_spread: float
    token_time_ps: int
    item_time_ps: int
    access: Access
    request_size_bytes: int
    source: str
    year: int
    confidence: str


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    text = resources.files("railyard.work.training").joinpath("data/formats.toml").read_text("utf-8")
    return {name: Format(name=name, **values) for name, values in tomllib.loads(text).items()}


def format_of(data: DataLoading) -> Format:
    """The format of a job's samples, with what the job replaces of it.

    Raises:
        InputError: There is no such format, or a value cannot be.
    """
    known = formats()
    if data.format not in known:
        raise InputError(
            "there is no such dataset format",
            key="format",
            found=data.format,
            allowed=list(known),
            hint=did_you_mean(data.format, list(known)),
        )
    base = known[data.format]
    values = {name: getattr(base, name) for name in Format.__dataclass_fields__}
    for name in values:
        given = getattr(data, name, None)
        if given is not None and name not in {"name", "summary", "source", "year", "confidence"}:
            values[name] = given
    return Format(**values)
