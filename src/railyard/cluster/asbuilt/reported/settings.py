"""What switches run: `config_db.json` of SONiC, running configurations of FRR and EOS, `set` commands of Junos."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.reported.reports import Configuration, Reader, Report, Reports, readers

if TYPE_CHECKING:
    from collections.abc import Callable

_SET = re.compile(r"^set (interfaces|protocols|class-of-service|routing-options|system|policy-options) ", re.MULTILINE)


def dialect_of(report: Report) -> str:
    """Name of the dialect, as port names have it; empty where it is none of them."""
    if report.document is not None:
        tables = report.document
        return "sonic" if isinstance(tables, dict) and {"DEVICE_METADATA", "PORT"} <= set(tables) else ""
    tests: dict[str, Callable[[str], bool]] = {
        "junos": lambda text: bool(_SET.search(text)),
        "eos": lambda text: bool(re.search(r"^interface (Ethernet|Loopback)\d", text, re.MULTILINE)),
        "frr": lambda text: bool(re.search(r"^(frr (version|defaults)|router bgp \d)", text, re.MULTILINE)),
    }
    return next((name for name, test in tests.items() if test(report.text)), "")


def _read(report: Report, out: Reports) -> None:
    out.configurations.append(Configuration(report.device, dialect_of(report), report.text, report.file))


readers.add("settings", Reader("configuration of a switch", lambda report: bool(dialect_of(report)), _read))
