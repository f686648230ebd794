"""Limits that are checked before anything large is made: one absurd number must not end a run for want of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster.fabric.fabric import FabricSpec
    from railyard.cluster.spec import ClusterSpec
    from railyard.work.training.spec import Training

MOST_QUEUE_PAIRS = 4096
MOST_PATHS = 1 << 24
"""Queue pairs of all accelerators together: each is a path of several links."""

MOST_TASKS = 50_000_000
"""At about 100 bytes a task for graph, entities and timeline, what a machine of 16 GB bears."""

_COUNTS = ("qps", "flowlets")


def check_cluster(spec: ClusterSpec) -> None:
    """Refuses fabrics with more queue pairs than can be simulated.

    Raises:
        InputError: Keys are relative to the cluster.
    """
    networks = {"back_end": spec.back_end, "front_end": spec.front_end}
    if spec.storage is not None and not isinstance(spec.storage.network, str):
        networks["storage.network"] = spec.storage.network
    for name, network in networks.items():
        if network is not None:
            _check_fabric(network.fabric, f"{name}.fabric", spec.accelerators)


def _check_fabric(fabric: FabricSpec, key: str, accelerators: int) -> None:
    for name in _COUNTS:
        value, most = int(fabric.overrides.get(name, 1)), min(MOST_QUEUE_PAIRS, MOST_PATHS // accelerators)
        if value > most:
            raise _beyond(f"{key}.{name}", value, most)


def check_step(training: Training) -> None:
    """Refuses steps whose task graph would not fit in memory, before it is built.

    Raises:
        InputError: The key is relative to the training section.
    """
    layout, tasks = training.layout, about_tasks(training)
    if tasks > MOST_TASKS:
        layered = f" in {training.model.layers} layers each, as zero 3 gathers them," if layout.zero == 3 else ""
        raise InputError(
            f"a step has about {tasks:,} tasks: {layout.micro_batches:,} micro-batches{layered} on each of"
            f" {layout.ranks:,} ranks",
            key="global_batch",
            found=f"{layout.global_batch:,}",
            allowed=f"what makes at most {MOST_TASKS:,} tasks",
            hint="take a larger micro_batch or a smaller global_batch; a step of fewer micro-batches is much the same",
        )


def about_tasks(training: Training) -> int:
    """About so many tasks of one step, over all ranks: each pass of a virtual stage, and what it sends.

    Under zero 3 a pass is cut at every layer, because each layer's weights are gathered before it.
    """
    layout = training.layout
    cuts = max(training.model.layers // layout.pp, 1) if layout.zero == 3 else layout.vp
    return 4 * layout.micro_batches * cuts * layout.ranks


def _beyond(key: str, found: int, most: int) -> InputError:
    return InputError("this is more than can be simulated", key=key, found=f"{found:,}", allowed=f"at most {most:,}")
