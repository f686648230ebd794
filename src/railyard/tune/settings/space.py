"""Settings that may be changed, and the values that are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.scenario import variants
from railyard.schema.yaml import Mark, from_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.scenario.load import Draft
    from railyard.schema.yaml import Node

COLLECTIVES: Mapping[str, tuple[Any, ...]] = {
    "qps": (2, 4, 8),
    "collectives.selector": ("best",),
    "collectives.connections": (1, 2, 4, 8, 16),
    "collectives.algorithm": (
        {"all-reduce": "ring"},
        {"all-reduce": "tree"},
        {"all-gather": "pat", "reduce-scatter": "pat"},
        {"all-gather": "ring", "reduce-scatter": "ring"},
    ),
    "collectives.protocol": ({"all-reduce": "simple"}, {"all-reduce": "ll128"}),
    "cluster.back_end.fabric.e_ecmp": (True,),
    "collectives.pxn": (False,),
    "workload.training.parallelism.bucket": ("25 MB", "100 MB", "400 MB"),
}
"""What a user of a collective library may set without touching a switch, and one hash setting of switches."""

CONGESTION: Mapping[str, tuple[Any, ...]] = {
    "packet.set.marking_low": ("50 kB", "400 kB", "1 MB"),
    "packet.set.marking_high": ("500 kB", "3 MB"),
    "packet.set.marking_most": ("0.05", "1.0"),
    "packet.set.dcqcn_additive": ("40 Mb/s", "1 Gb/s", "4 Gb/s", "20 Gb/s"),
    "packet.set.dcqcn_increase_interval": ("5 us", "10 us", "300 us"),
    "packet.set.rdma_cnp_interval": ("10 us", "50 us"),
    "packet.set.pfc_alpha": ("0.125", "0.5", "2", "8"),
}
"""ECN thresholds and shares of the buffer of switches, DCQCN of interfaces, on packets alone."""


def space_of(draft: Draft, engine: str) -> dict[str, tuple[Node, ...]]:
    """Keys and the values to try, besides those that the scenario has.

    Args:
        draft: A scenario that trains.
        engine: On which settings are tried.

    Raises:
        InputError: It does not train.
    """
    if draft.kind != "training":
        raise draft.blame(
            InputError(f"settings are tuned for training, and this scenario has `{draft.kind}`", key="workload")
        )
    section = draft.scenario.tune
    if section is not None and section.space:
        tree = draft.tree.value["tune"].value["space"].value
        found = {key: tuple(tree[key].value) for key in section.space}
        for key, nodes in found.items():
            variants.refuse_twins(key, nodes)
        return found
    marked = draft.scenario.cluster.back_end.fabric.name.startswith("roce")
    wanted = {**COLLECTIVES, **(CONGESTION if engine == "packet" and marked else {})}
    mark = Mark("railyard tune")
    return {key: tuple(from_plain(value, mark) for value in values) for key, values in wanted.items()}
