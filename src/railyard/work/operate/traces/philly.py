"""`philly`: jobs of Microsoft's Philly clusters as Sia's artifact gives them."""

from __future__ import annotations

from railyard.work.operate.trace import Row, TraceFormat, formats, integer, moment, number


def _row(text: dict[str, str]) -> Row:
    accelerators = integer(text, "num_gpus")
    return Row("", moment(text, "timestamp"), number(text, "duration"), accelerators, text["cluster"])


PHILLY = formats.add(
    "philly",
    TraceFormat(
        "philly",
        "Microsoft Philly, as processed by Sia: timestamp, duration in seconds, GPUs, virtual cluster.",
        ("timestamp", "duration", "num_gpus", "cluster"),
        _row,
        "https://github.com/msr-fiddle/philly-traces (CC-BY-4.0), https://github.com/siasosp23/artifacts",
    ),
)
