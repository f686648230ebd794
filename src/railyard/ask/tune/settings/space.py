"""Settings that may be changed, and the values that are tried besides what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.work.scenario import load, override, variants
from railyard.work.scenario.packet import setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.kit.schema.yaml import Node
    from railyard.work.scenario.load import Draft

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
    "cluster.placement": ("packed", "spread"),
}
"""What a user of a collective library may set without touching a switch, the order of a job's ranks over its servers
and leafs, and one hash setting of switches. By which rail a message leaves is `collectives.pxn`."""

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

ULTRA: Mapping[str, tuple[Any, ...]] = {
    "packet.set.congestion_control": ("nscc", "nscc+rccc", "rccc"),
    "packet.set.target_delay": ("4 us", "8 us", "16 us", "32 us"),
    "packet.set.quick_adapt_gate": ("1", "5"),
    "packet.set.load_balancing": ("mixed", "reps", "bitmap"),
    "packet.set.paths": ("16", "256"),
    "packet.set.ecn_low_packets": ("8", "16", "64"),
    "packet.set.ecn_high_packets": ("64", "200"),
}
"""Of Ultra Ethernet, on packets alone: who controls, NSCC's constants, entropies of its sprays, marks of switches."""


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
    written = load.dump(draft.scenario)
    wanted = {**COLLECTIVES, **(_of_packets(draft) if engine == "packet" else {})}
    mark = Mark("railyard tune")
    new = {key: [one for one in values if one != value_at(written, key)] for key, values in wanted.items()}
    return {key: tuple(from_plain(value, mark) for value in values) for key, values in new.items() if values}


def refuse_wrong(draft: Draft, space: Mapping[str, Sequence[Node]], engine: str) -> None:
    """Refuses values that no scenario has, before minutes of steps go by without them.

    Args:
        draft: The scenario, its fabric written out.
        space: Keys and the values to try, as written.
        engine: On which they are tried.

    Raises:
        InputError: A key is none, or one that changes nothing on the engine, or a value is none of its key.
    """
    for key, nodes in space.items():
        if key.startswith(("packet.set.", "packet.fabric")) and engine != "packet":
            problem = nodes[0].problem(
                f"settings of packets change nothing on the engine `{engine}`",
                key=f"tune.space.{key}",
                allowed="with `engine: packet`, or `--engine packet`",
            )
            raise InputError.many([problem])
        below = key.removeprefix("packet.set.")
        for node in nodes:
            draft.changed({key: node})
            if below == key:
                continue
            try:
                setting(below, str(node.value))
            except InputError as error:
                mark = node.mark
                raise error.located(file=mark.file, line=mark.line, column=mark.column, key="packet.set") from None


def _of_packets(draft: Draft) -> Mapping[str, tuple[Any, ...]]:
    """Settings that only packets see, by the fabric's family."""
    name = draft.scenario.cluster.back_end.fabric.name
    return next((keys for family, keys in (("roce", CONGESTION), ("uec", ULTRA)) if name.startswith(family)), {})


def value_at(written: Mapping[str, Any], key: str) -> Any:
    """What a scenario says under a key, short names included; None where it says nothing."""
    found: Any = written
    for step in override.full_path(key):
        if not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    return found
