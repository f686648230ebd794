"""Azure LLM inference traces (Azure/AzurePublicDataset, 2023 and 2024): a date and time, two lengths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import integers

if TYPE_CHECKING:
    from railyard.work.serving.traces.lines import Batch, Faults

_WHEN = re.compile(
    r"(?:19[7-9]\d|20\d\d|21\d\d|22[0-5]\d)-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[ T]"
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|\+00:00)?\Z",
    re.ASCII,
)


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    stamps = []
    for line, text in zip(batch.numbers, cells["TIMESTAMP"], strict=True):
        if _WHEN.match(text):
            stamps.append(text.removesuffix("Z").removesuffix("+00:00"))
            continue
        stamps.append("1970-01-01")
        if text:
            faults.add(line, "TIMESTAMP must be a date and a time in UTC", found=text, allowed="2023-11-16 18:17:03.97")
        else:
            faults.add(line, "a hole: TIMESTAMP is empty")
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=_nanoseconds(batch, stamps, faults),
        input_tokens=integers(batch, cells["ContextTokens"], "ContextTokens", faults, low=1, high=MOST_TOKENS),
        output_tokens=integers(batch, cells["GeneratedTokens"], "GeneratedTokens", faults, high=MOST_TOKENS),
    )


def _nanoseconds(batch: Batch, stamps: list[str], faults: Faults) -> np.ndarray[Any, np.dtype[np.int64]]:
    try:
        return np.array(stamps, "datetime64[ns]").astype(np.int64)
    except ValueError:
        for line, text in zip(batch.numbers, stamps, strict=True):
            if not _exists(text):
                faults.add(line, "TIMESTAMP is a day that does not exist", found=text)
    return np.zeros(len(stamps), np.int64)


def _exists(text: str) -> bool:
    try:
        np.datetime64(text, "ns")
    except ValueError:
        return False
    return True


FORMATS.add(
    "azure",
    TraceFormat(
        title="Azure LLM inference",
        style="csv",
        needed=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        optional=(),
        ps_per_tick=1000,
        absolute=True,
        rows=_rows,
        source="Azure/AzurePublicDataset; Patel et al., Splitwise, ISCA 2024",
    ),
)
