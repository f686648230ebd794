"""Many jobs on one cluster for months."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.operate import OperateFigures
from railyard.measure.result.variants.variant import BaseVariant


class OperateVariant(BaseVariant):
    """A cluster in time, under one set of rules."""

    kind: ClassVar[str] = "operate"
    operate: OperateFigures = Field(description="what it did")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of every allocation")
    stopped: str | None = Field(
        default=None,
        description="where Ctrl-C or SIGTERM ended it: figures are of what was played by then; absent where it ended",
    )
