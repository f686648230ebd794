"""How the settings of switches with classes and pause frames are written: the keys of `--set` and their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard import units
from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_CLASSES = 8


def _bytes(text: str) -> int:
    """`4096` bytes, or with a unit: `16 MB`."""
    return int(text) if text.isascii() and text.isdigit() else units.size(text)


def _packets(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= 10**7):
        raise InputError("a number of packets is wanted", found=text, allowed="1 to 10000000")
    return int(text)


def _factor(text: str) -> float:
    """A positive number: `1`, `0.125`, `1/8`."""
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise InputError("a number is wanted", found=text, allowed="such as 0.125 or 1/8") from None
    if not 0 < value <= 1e6:
        raise InputError("the factor is out of range", found=text, allowed="above 0, up to 1000000")
    return value


def _probability(text: str) -> float:
    value = units.ratio(float(text) if text.replace(".", "", 1).isdigit() else text)
    if not 0 <= value <= 1:
        raise InputError("a probability lies between 0 and 1", found=text)
    return value


def _yes(text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError("unknown word", found=text, allowed=("true", "false"))
    return text == "true"


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        raise InputError("whole numbers between commas are wanted", found=text, allowed="such as 0,1,5")
    return tuple(int(part) for part in parts)


def _classes(text: str) -> tuple[int, ...]:
    """`0,3,7`, `all` or `none`."""
    if text in ("all", "none"):
        return tuple(range(_CLASSES)) if text == "all" else ()
    found = _numbers(text)
    if max(found) >= _CLASSES:
        raise InputError("there are eight classes", found=text, allowed="0 to 7")
    return found


def _class(text: str) -> int | None:
    if text == "same":
        return None
    if text not in "01234567" or len(text) != 1:
        raise InputError("a class is wanted", found=text, allowed="0 to 7, or same")
    return int(text)


def _weights(text: str) -> tuple[int, ...]:
    found = _numbers(text)
    if len(found) != _CLASSES or max(found) > 255:
        raise InputError("eight weights are wanted", found=text, allowed="eight numbers from 0 to 255")
    return found


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "control_class": ("control_class", _class),
    "marking_low": ("marking_low_bytes", _bytes),
    "marking_high": ("marking_high_bytes", _bytes),
    "marking_most": ("marking_most", _probability),
    "marking_at_enqueue": ("marking_at_enqueue", _yes),
    "marking_by_rate": ("marking_by_rate", _yes),
    "pfc_lossless": ("pfc_lossless", _classes),
    "pfc_weights": ("pfc_weights", _weights),
    "pfc_xoff": ("pfc_xoff_bytes", _bytes),
    "pfc_xon": ("pfc_xon_bytes", _bytes),
    "pfc_xoff_packets": ("pfc_xoff_packets", _packets),
    "pfc_xon_packets": ("pfc_xon_packets", _packets),
    "pfc_buffer": ("pfc_buffer_bytes", _bytes),
    "pfc_alpha": ("pfc_alpha", _factor),
    "pfc_lossy_alpha": ("pfc_lossy_alpha", _factor),
    "pfc_resume": ("pfc_resume_bytes", _bytes),
    "pfc_reserve": ("pfc_reserve_bytes", _bytes),
    "pfc_headroom": ("pfc_headroom_bytes", _bytes),
    "pfc_frame": ("pfc_frame_bytes", _bytes),
    "pfc_response": ("pfc_response_ps", units.time),
    "pfc_watch": ("pfc_watch_ps", units.time),
    "pfc_stall": ("pfc_stall_ps", units.time),
}
"""By key of `--set`: the attribute and what reads it."""
