"""Settings that may be changed, and the values that are tried in addition to what is written."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.catalog import Catalog
from railyard.collective import CollectivePolicy
from railyard.collective.tuner import NCCL_SINCE
from railyard.kit.errors import InputError, RailyardError
from railyard.kit.schema.yaml import Mark, from_plain
from railyard.work.scenario import load, override
from railyard.work.scenario.load import refuse_twins
from railyard.work.scenario.packet import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.catalog import Model
    from railyard.kit.schema.yaml import Node
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import TuneSection


UNSEEN = 1000
"""Added to the seed for draws that the search does not see."""

SMALLEST, LARGEST = 0.25, 2.0
"""Parameters of another job's model, of the written one's: what takes much longer to simulate is left out."""

TENSOR, STAGES = (1, 2, 4, 8), (1, 2, 4)
SEQUENCES = (0.5, 1, 2)
"""Shares of the written sequence."""

PATTERNS = ("incast", "permutation", "all-to-all")
PORTS = (0.25, 0.5, 1.0)
"""Shares of the back-end's ports that a neighbour uses; an all-to-all uses at most `MOST_TO_ALL` ports."""

MOST_TO_ALL = 16
EVERY_US = (2_000, 5_000, 10_000)
"""Time between two bursts."""

BUSY = (0.1, 0.2, 0.4)
"""Share of the time in which the neighbour's busiest port is busy: the size of its flows follows."""

TRIES = 60
"""Draws for one job, of which one has to be possible."""

Kind = Literal["draw", "load", "job"]
KINDS: tuple[Kind, ...] = ("draw", "load", "job")


@dataclass(frozen=True)
class TuneCase:
    """Conditions of a step.

    Attributes:
        load: Share of the back-end that others take.
        job: Dotted keys and values in place of the scenario's; empty for the job as written.
    """

    seed: int
    load: float = 0.0
    job: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""

    @property
    def kind(self) -> Kind:
        """Which of the three kinds it is."""
        return "job" if self.job else "load" if self.load else "draw"


@dataclass(frozen=True)
class JobGround:
    """Cluster for which other jobs are drawn.

    Attributes:
        model: As written; None where it is no model of the catalogue.
    """

    model: Model | None
    sequence: int
    ranks: int
    domain: int
    ports: int
    link_bps: float


def unseen_cases(seed: int, section: TuneSection, jobs: Sequence[tuple[Mapping[str, Any], str]] = ()) -> list[TuneCase]:
    """Everything that nothing is chosen by."""
    number = itertools.count(seed + UNSEEN)
    found = [TuneCase(next(number), share) for share in section.unseen_loads for _ in range(section.unseen_seeds)]
    return found + [TuneCase(next(number), 0.0, keys, words) for keys, words in jobs]


def other_jobs(
    ground: JobGround, count: int, seed: int, possible: Callable[[Mapping[str, Any]], bool]
) -> list[tuple[dict[str, Any], str]]:
    """Other jobs for the same cluster, all different.

    Raises:
        InputError: Too few of those drawn are possible.
    """
    dice = np.random.default_rng([seed, 77])
    choose = partial(_drawn, ground, _models(ground), dice)
    found: list[tuple[dict[str, Any], str]] = []
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        keys, words = choose()
        if words not in [other for _, other in found] and possible(keys):
            found.append((keys, words))
    if len(found) < count:
        raise InputError(
            f"of {TRIES * count} jobs that were drawn for this cluster only {len(found)} can run",
            key="tune.unseen_jobs",
            found=count,
            allowed=f"at most {len(found)}",
        )
    return found


def _models(ground: JobGround) -> list[str | None]:
    """Names of models of about the written one's size; None is the written one, where there is no other."""
    if ground.model is None:
        return [None]
    catalog, size = Catalog(), ground.model.parameters()
    every = ((name, catalog.model(name)) for name in catalog.names("models"))
    return [name for name, one in every if SMALLEST * size <= one.parameters() <= LARGEST * size] or [None]


def _drawn(ground: JobGround, models: Sequence[str | None], dice: np.random.Generator) -> tuple[dict[str, Any], str]:
    model = models[int(dice.integers(len(models)))]
    tensor = _of(dice, [size for size in TENSOR if size <= ground.domain])
    stages, zero = _of(dice, STAGES), _of(dice, (1, 3))
    replicas = max(1, ground.ranks // (tensor * stages))
    sequence = max(1, int(ground.sequence * _of(dice, SEQUENCES)))
    experts = _experts(model, tensor * replicas)
    layout = {"tp": tensor, "pp": stages, "zero": zero, **({"ep": experts} if experts > 1 else {})}
    keys: dict[str, Any] = {
        "workload.training.parallelism": layout,
        "workload.training.global_batch": replicas * stages,
        "workload.training.sequence": sequence,
        "packet.beside": [_neighbour(ground, dice)],
    }
    if model is not None:
        keys["workload.training.model"] = model
    beside = keys["packet.beside"][0]
    shape = " ".join(f"{name}{size}" for name, size in layout.items() if name == "zero" or size > 1)
    other = f"{beside['pattern']} of {beside['ports']} ports, {beside['size']} every {beside['every']}"
    return keys, f"{model or 'the model'}, {shape}, {sequence:,} tokens; background: {other}"


def _experts(model: str | None, ranks: int) -> int:
    """Ranks that share a mixture's experts: the greatest power of two that divides both, 1 for dense models."""
    experts = 0 if model is None else Catalog().model(model).experts
    found = 1
    while experts and experts % (2 * found) == 0 and ranks % (2 * found) == 0 and found < 8:
        found *= 2
    return found


def _neighbour(ground: JobGround, dice: np.random.Generator) -> dict[str, Any]:
    """Bursts as `packet.beside` has them."""
    pattern, every_us = _of(dice, PATTERNS), _of(dice, EVERY_US)
    ports = max(2, min(ground.ports - 1, round(ground.ports * _of(dice, PORTS))))
    if pattern == "all-to-all":
        ports = min(ports, MOST_TO_ALL)
    flows = {"incast": ports, "permutation": 1, "all-to-all": ports - 1}[pattern]
    kilobytes = max(1, round(_of(dice, BUSY) * every_us * 1e-6 * ground.link_bps / 8 / flows / 1e3))
    return {"pattern": pattern, "ports": ports, "size": f"{kilobytes} kB", "every": f"{every_us // 1000} ms"}


def _of(dice: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(dice.integers(len(values)))]


def can_run(draft: Draft, keys: Mapping[str, Any]) -> bool:
    """Whether a job fits the scenario's cluster: its layout divides, its memory holds."""
    from railyard.work.study import study

    plain: dict[str, Any] = {"tune": None, "compare": {}, "repeat": 1}
    try:
        study.prepare(draft.with_values({**keys, **plain}, "railyard tune"), engine="flow")
    except RailyardError:
        return False
    return True


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
"""Keys of Ultra Ethernet, on packets alone: congestion control, NSCC's constants, entropies of its sprays, marks of
switches."""


def space_of(draft: Draft, engine: str) -> dict[str, tuple[Node, ...]]:
    """Keys and the values to try, without those that the scenario has.

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
            refuse_twins(key, nodes)
        return found
    written = load.dump(draft.scenario)
    wanted = {**COLLECTIVES, **(_of_packets(draft) if engine == "packet" else {})}
    mark = Mark("railyard tune")
    new = {
        key: [one for one in values if one != value_at(written, key) and not _missing(draft, key, one)]
        for key, values in wanted.items()
    }
    return {key: tuple(from_plain(value, mark) for value in values) for key, values in new.items() if values}


def _missing(draft: Draft, key: str, value: Any) -> str:
    """An algorithm that the scenario's version of NCCL does not have; empty where it has all of a value."""
    version = draft.scenario.collectives.version
    if key != "collectives.algorithm" or version is None or not isinstance(value, dict):
        return ""
    number = CollectivePolicy(version=version).version_number
    return next((name for name in value.values() if NCCL_SINCE.get(name, number) > number), "")


def refuse_wrong(draft: Draft, space: Mapping[str, Sequence[Node]], engine: str) -> None:
    """Refuses values that no scenario has, before minutes of steps go by without them.

    Raises:
        InputError: A key is none, or one that changes nothing on the engine, or a value is none of its key.
    """
    for key, nodes in space.items():
        if key.startswith(("packet.set.", "packet.fabric")) and engine != "packet":
            problem = nodes[0].problem(
                f"packet settings change nothing on the engine `{engine}`",
                key=f"tune.space.{key}",
                allowed="with `engine: packet`, or `--engine packet`",
            )
            raise InputError.many([problem])
        below = key.removeprefix("packet.set.")
        for node in nodes:
            draft.changed({key: node})
            missing = _missing(draft, key, node.plain())
            if missing:
                since = ".".join(map(str, NCCL_SINCE[missing]))
                text = f"NCCL {draft.scenario.collectives.version} has no `{missing}`, which came with {since}"
                raise InputError.many([node.problem(text, key=f"tune.space.{key}")])
            if below == key:
                continue
            try:
                setting(below, str(node.value))
            except InputError as error:
                mark = node.mark
                raise error.located(file=mark.file, line=mark.line, column=mark.column, key="packet.set") from None


def _of_packets(draft: Draft) -> Mapping[str, tuple[Any, ...]]:
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
