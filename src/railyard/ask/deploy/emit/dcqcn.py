"""DCQCN of interfaces as a script for servers: what is set otherwise than the fabric's own constants, for mlx5.

Linux shows the parameters of a ConnectX port as files below `/sys/kernel/debug/mlx5/<bus address>/cc_params`, names as
in the driver (`drivers/infiniband/hw/mlx5/cong.c`); rates are in Mb/s, times in microseconds, the weight g in 1/1024.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.cluster.fabric import fabrics
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from railyard.cluster.fabric import Fabric

FILE = "dcqcn.sh"

PARAMETERS: Mapping[str, tuple[str, float]] = {
    "dcqcn_additive_bps": ("rp_ai_rate", 1e6),
    "dcqcn_hyper_bps": ("rp_hai_rate", 1e6),
    "dcqcn_min_rate_bps": ("rp_min_rate", 1e6),
    "dcqcn_increase_interval_ps": ("rp_time_reset", 1e6),
    "dcqcn_decrease_interval_ps": ("rp_rate_reduce_monitor_period", 1e6),
    "dcqcn_alpha_interval_ps": ("rp_dce_tcp_rtt", 1e6),
    "dcqcn_fast_recovery": ("rp_threshold", 1),
    "dcqcn_g": ("rp_dce_tcp_g", 1 / 1024),
    "rdma_cnp_interval_ps": ("np_min_time_between_cnps", 1e6),
}
"""By constant: the driver's file, and what one of its unit is in the constant's."""

_LINE = re.compile(r'\s*echo (\d+) > "\$port/(\w+)"')


def meant(fabric: Fabric) -> dict[str, int]:
    """What is set otherwise than the fabric of that name has it: value by name of the driver's file.

    Raises:
        InputError: A value is no whole number of the driver's unit.
    """
    mine = fabric.packets.constants if fabric.packets is not None else {}
    if mine.get("rdma_control") != "dcqcn":
        return {}
    usual = fabrics.get(fabric.name).packets.constants
    found = {}
    for constant, (name, unit) in PARAMETERS.items():
        if constant in mine and mine[constant] != usual.get(constant):
            found[name] = _integer(constant, float(mine[constant]) / unit)
    return found


def _integer(constant: str, value: float) -> int:
    if abs(value - round(value)) > 1e-9 * max(value, 1.0):
        raise InputError("interfaces take whole numbers", key=f"packet.set ({constant})", found=f"{value:g}")
    return round(value)


def render(values: Mapping[str, int], hcas: Iterable[str]) -> str:
    """The script, read back and compared with what was meant.

    Args:
        values: By name of the driver's file.
        hcas: Names of the interfaces between accelerators.

    Raises:
        SimulationError: It says otherwise: a fault of Railyard's.
    """
    lines = ["#!/bin/sh", "# DCQCN of the interfaces between accelerators; as root, after every start", "set -e"]
    lines += [f"for name in {' '.join(hcas)}; do"]
    lines += ['  bus="$(basename "$(readlink -f "/sys/class/infiniband/$name/device")")"']
    lines += ['  port="/sys/kernel/debug/mlx5/$bus/cc_params"']
    lines += [f'  echo {value} > "$port/{name}"' for name, value in values.items()]
    text = "\n".join([*lines, "done", ""])
    if read(text) != dict(values):
        raise SimulationError(f"servers/{FILE}: what was written is not what was meant")
    return text


def read(text: str) -> dict[str, int]:
    """What a script sets: value by name of the driver's file; comments say nothing."""
    return {m[2]: int(m[1]) for line in text.splitlines() if (m := _LINE.fullmatch(line))}
