"""`tiresias`: the job files of Tiresias' simulator; times in seconds."""

from __future__ import annotations

from railyard.work.operate.trace import Row, TraceFormat, formats, integer, number


def _row(text: dict[str, str]) -> Row:
    return Row(
        text["job_id"],
        number(text, "submit_time"),
        number(text, "duration"),
        integer(text, "num_gpu"),
        work=text["model_name"] or "",
    )


TIRESIAS = formats.add(
    "tiresias",
    TraceFormat(
        "tiresias",
        "Tiresias' simulator: job_id, num_gpu, submit_time, duration, model_name.",
        ("job_id", "num_gpu", "submit_time", "duration", "model_name"),
        _row,
        "https://github.com/SymbioticLab/Tiresias (Apache-2.0)",
    ),
)
