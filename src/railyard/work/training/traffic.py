"""What a step puts on links by class of communicators, for thousands of designs; the counterpart of `estimate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.graph import CollectiveKind
from railyard.work.training import communication
from railyard.work.training.alpha_beta import Group, wire_bytes
from railyard.work.training.sharded_times import shard_group
from railyard.work.training.state import buckets, covering_batches

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.pipeline_ranks import PipelineRanks, RankColumns

CLASSES = ("tp", "cp", "ep", "pp", "dp", "edp", "replica")
"""Communicators: tensor, context, expert and pipeline parallel, replicas of dense and of expert parameters, and groups
of shards that are replicas of one another."""

Pattern = Literal["ring", "exchange", "send"]
PATTERNS: tuple[Pattern, ...] = ("ring", "ring", "exchange", "send", "ring", "ring", "ring")
"""How each class talks."""

PACED = (False, False, False, True, False, False, False)
"""Whether groups of a class drift apart: sends between stages do, collectives of a layer or of all replicas do not."""

QUEUES = (0, 0, 0, 0, 1, 1, 1)
"""Classes of one queue take turns on an accelerator: what computation waits for, and the data streams."""

_GATHER, _SCATTER, _REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE


@dataclass(frozen=True)
class Traffic:
    """Of d designs and c classes, float64[d, c].

    Attributes:
        domains: Scale-up domains that a group spans.
        hop: Domains from one of these to the next.
        local: Members of a group in one of these.
        inside_s: Seconds of a step's bytes of the fullest rank on its scale-up links, at full speed.
        outside_s: The same through its NICs.
        aggregated: Share of these that aggregated trees (PAT) move.
        beside: Share of the step in which a class runs under computation: what is sent once a step, under the passes
            of the micro-batches in its window alone.
        hidden: Share of a class that does, at most: of what is sent once a step the software hides so much.
    """

    domains: F
    hop: F
    local: F
    inside_s: F
    outside_s: F
    aggregated: F
    beside: F
    hidden: F


def traffic(columns: Columns, pipeline: PipelineRanks, machine: MachineColumns) -> Traffic:
    """What one step of each design sends.

    Args:
        columns: The designs.
        pipeline: What ranks hold.
        machine: Rates, of every class alone.
    """
    groups = _groups(columns)
    sent = _sharded(columns, pipeline, machine, groups) | {"pp": _sends(columns, machine)}
    fullest = {
        name: np.max([getattr(kind, name) for kind in pipeline.kinds], axis=0)
        for name in type(pipeline.first).__slots__
    }
    for name, amount in _exchanged(columns, type(pipeline.first)(**fullest), machine).items():
        sent[name] = amount
    stride = [groups[name].stride for name in CLASSES]
    local = [groups[name].local(machine) for name in CLASSES]
    spanned = [np.ceil(groups[name].ranks / each) for name, each in zip(CLASSES, local, strict=True)]
    moved = [sent[name] for name in CLASSES]
    return Traffic(
        domains=np.stack(spanned, axis=1),
        hop=np.stack([np.maximum(each / machine.domain, 1.0) for each in stride], axis=1),
        local=np.stack(local, axis=1),
        inside_s=np.stack([_seconds(each.inside, machine.up_bytes_s) for each in moved], axis=1),
        outside_s=np.stack([each.outside / machine.out_bytes_s for each in moved], axis=1),
        aggregated=np.stack([each.trees / np.maximum(each.outside, 1e-12) for each in moved], axis=1),
        beside=_of_data(columns, covering_batches(columns) / columns.layout.micro_batches),
        hidden=_of_data(columns, columns.software.gradient_overlap * np.ones_like(columns.layout.zero)),
    )


def _seconds(amount: F, rate: F) -> F:
    """Bytes over bytes/s; 0 where nothing is sent, also on a machine that has no such links."""
    return np.divide(amount, rate, out=np.zeros_like(amount), where=amount > 0)


def _of_data(columns: Columns, once: F) -> F:
    """float64[d, c], 1 but for classes of the data streams that send once a step."""
    share = np.where(columns.layout.zero >= 3, 1.0, np.minimum(once, 1.0))
    return np.stack([share if queue else np.ones_like(share) for queue in QUEUES], axis=1)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes that one rank sends on its scale-up links and through its NICs, and those of the latter in trees."""

    inside: F
    outside: F
    trees: F

    @classmethod
    def none(cls, like: F) -> _Moved:
        return cls(*(np.zeros_like(like) for _ in range(3)))

    @classmethod
    def of(cls, kind: CollectiveKind, size_bytes: F, calls: F, group: Group, machine: MachineColumns) -> _Moved:
        """So many collectives, which have so many bytes together."""
        inside, outside = wire_bytes(kind, size_bytes, group, machine)
        trees = np.zeros_like(outside)
        if machine.curves is not None:
            members = (group.ranks, group.local(machine))
            trees = outside * machine.curves.aggregated(kind, size_bytes / calls, members)
        return cls(inside, outside, trees)

    def plus(self, other: _Moved, times: F | float = 1.0) -> _Moved:
        """With so many times the other."""
        return _Moved(
            self.inside + times * other.inside, self.outside + times * other.outside, self.trees + times * other.trees
        )


def _groups(columns: Columns) -> dict[str, Group]:
    layout = columns.layout
    replicas = layout.dp * layout.cp
    shard = np.where(layout.zero >= 3, layout.shard, replicas)
    return {
        **communication.groups(columns),
        "pp": Group(layout.pp, layout.tp * replicas),
        "dp": Group(shard, layout.tp),
        "edp": shard_group(columns, "expert"),
        "replica": Group(replicas / shard, layout.tp * shard),
    }


def _exchanged(columns: Columns, rank: RankColumns, machine: MachineColumns) -> dict[str, _Moved]:
    """Of tensor-, context- and expert-parallel collectives."""
    groups, counts = communication.groups(columns), communication.places(columns, rank)
    sent = {name: _Moved.none(rank.layers) for name in groups}
    for exchange in communication.exchanges(columns, machine.domain):
        often = sum(communication.repeats(columns, exchange, phase) for phase in ("forward", "backward"))
        times = columns.layout.micro_batches * exchange.count * counts[exchange.part] * often
        moved = _Moved.of(exchange.kind, exchange.size_bytes, np.ones_like(times), groups[exchange.group], machine)
        sent[exchange.group] = sent[exchange.group].plus(moved, times)
    return sent


def _sends(columns: Columns, machine: MachineColumns) -> _Moved:
    """Activations to the next stage and gradients to the one before, of all chunks."""
    layout = columns.layout
    moved = 2.0 * layout.vp * layout.micro_batches * communication.pipeline_bytes(columns) * (layout.pp > 1)
    near = layout.tp * layout.cp * layout.dp < machine.domain
    return _Moved(np.where(near, moved, 0.0), np.where(near, 0.0, moved), np.zeros_like(moved))


def _sharded(
    columns: Columns, pipeline: PipelineRanks, machine: MachineColumns, groups: dict[str, Group]
) -> dict[str, _Moved]:
    """Reductions of gradients and gathers of parameters, once a step or, under ZeRO-3, with every micro-batch."""
    layout, each = columns.layout, columns.software.gradient_bytes
    dense, expert, trained, trained_expert = (
        np.max([getattr(kind, name) for kind in pipeline.kinds], axis=0)
        for name in ("dense", "expert", "trained_dense", "trained_expert")
    )
    layers = np.maximum(np.max([kind.layers for kind in pipeline.kinds], axis=0), 1.0)
    split = layout.zero >= 3
    often = np.where(split, layout.micro_batches, 1.0)
    kept = (layout.zero < 1).astype(np.float64)
    gathers = np.where(split, 1.0 + layout.reshard, 1.0 - kept)
    messages = np.where(split, columns.software.shard_messages, 1.0)

    def of(name: str, held: F, taught: F) -> _Moved:
        calls = np.where(split, layers, buckets(columns, taught, layers))
        summed = _Moved.of(_REDUCE, taught * each * kept, calls, groups[name], machine)
        scattered = _Moved.of(_SCATTER, taught * each * (1.0 - kept), calls, groups[name], machine)
        gathered = _Moved.of(_GATHER, np.where(split, held, taught) * 2.0, calls * messages, groups[name], machine)
        return summed.plus(scattered).plus(gathered, gathers)

    none = _Moved.none(dense)
    across = _Moved.of(_REDUCE, trained / layout.shard * each * split, layers, groups["replica"], machine)
    sent = {"dp": of("dp", dense, trained), "edp": of("edp", expert, trained_expert), "replica": across}
    return {name: none.plus(moved, often) for name, moved in sent.items()}
