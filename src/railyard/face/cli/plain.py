"""Letters for streams that lack them: lines and bars of trees as ASCII, all others spelled out."""

from __future__ import annotations

import codecs
import io
from typing import Any

_ASCII = str.maketrans(
    {
        **dict.fromkeys("─━", "-"),
        **dict.fromkeys("│├", "|"),
        "└": "`",
        **dict.fromkeys("█▉▊▋▌▍▎▏", "#"),
        "…": "...",
        **dict.fromkeys("–—−", "-"),
        "×": "x",
        "±": "+-",
        "µ": "u",
    }
)


def letters(*streams: Any) -> None:
    """Makes streams write what their encoding lacks in letters that it has."""
    codecs.register_error("railyard", _spelled)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors="railyard")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
