"""`csv`: a table of one's own: submit_s, duration_s, accelerators, and what else is known."""

from __future__ import annotations

from railyard.work.operate.event import Ask
from railyard.work.operate.trace import Row, TraceFormat, formats, integer, number
from railyard.work.operate.tree import UNNAMED


def _row(text: dict[str, str]) -> Row:
    def given(key: str) -> bool:
        return bool(text.get(key))

    return Row(
        text.get("job") or "",
        number(text, "submit_s"),
        number(text, "duration_s"),
        integer(text, "accelerators"),
        text.get("tenant") or UNNAMED,
        integer(text, "priority") if given("priority") else 0,
        number(text, "limit_s") if given("limit_s") else None,
        integer(text, "nodes") if given("nodes") else 0,
        integer(text, "least_accelerators") if given("least_accelerators") else 0,
        tuple((text.get("after") or "").split()),
        text.get("class") or "",
        Ask(
            text.get("within") or "",
            text.get("prefers") or "",
            integer(text, "segment") if given("segment") else 0,
            text.get("segment_within") or "",
            integer(text, "switches") if given("switches") else 0,
        ),
        integer(text, "replica_accelerators") if given("replica_accelerators") else 0,
        number(text, "load") if given("load") else 0.0,
    )


CSV = formats.add(
    "csv",
    TraceFormat(
        "csv",
        "submit_s, duration_s, accelerators; job, tenant, priority, limit_s, nodes, least_accelerators, after, class,"
        " within, prefers, segment, segment_within, switches, replica_accelerators, load.",
        ("submit_s", "duration_s", "accelerators"),
        _row,
        "docs/how-to/operate.md",
    ),
)
