"""Names of metrics: NCCL inspector's, node_exporter's, DCGM's, and Railyard's own."""

from __future__ import annotations

import re

BUSBW = "nccl_bus_bandwidth_gbs"
"""NCCL inspector's: GB/s; labels `collective`, `message_size` (a range), `nranks`, `n_nodes`, `comm_name`, `node`,
`gpu`."""

KEYS = ("collective", "message_size", "nranks", "n_nodes")
"""Labels by which a value is expected; older exporters write no `n_nodes`, which is then empty."""

EXPECTED = "railyard_expected_bus_bandwidth_gbs"
"""What the model expects of it, by `KEYS`."""

CALIBRATED = "railyard_calibrated_bus_bandwidth_gbs"
"""The same with the constants that were learned from the cluster."""

FACTOR = "railyard_calibration_factor"
MAPE = "railyard_expectation_error_ratio"
"""Of the latest hour, by `of`: the model as it is, or with what was learned."""

RATIO = "railyard:nccl_bus_bandwidth:ratio"
SYMBOL_ERRORS = "node_infiniband_symbol_error_total"
TRANSMIT_WAIT = "node_infiniband_port_transmit_wait_total"
TRANSMITTED = "node_infiniband_port_data_transmitted_bytes_total"
LINK_DOWNED = "node_infiniband_link_downed_total"
XID = "DCGM_FI_DEV_XID_ERRORS"

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_RANGE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]?B)?\s*(?:-\s*(\d+(?:\.\d+)?)\s*([KMGT]?B))?\s*$", re.IGNORECASE)


def size_of(message_size: str) -> int | None:
    """Bytes at the lower end of a range such as `512-513MB`; None where it is no such range."""
    found = _RANGE.match(message_size)
    if found is None:
        return None
    unit = (found[2] or found[4] or "B").upper()
    return max(int(float(found[1]) * _UNITS[unit]), 1)


def range_of(size_bytes: int) -> str:
    """The range that NCCL inspector would write, in whole units: `512-513MB`."""
    for unit, factor in reversed(_UNITS.items()):
        if size_bytes >= factor:
            return f"{size_bytes // factor}-{size_bytes // factor + 1}{unit}"
    return "0-1B"


def line(name: str, labels: dict[str, str], value: float, at_s: float | None = None) -> str:
    """A sample of the exposition format, or of OpenMetrics where it has a time."""
    words = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
    return f"{name}{{{words}}} {value:.10g}" + ("" if at_s is None else f" {at_s:.3f}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
