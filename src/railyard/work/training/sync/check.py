"""Checks combinations of communication methods; errors use the scenario's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.training.spec import Training
    from railyard.work.training.sync.spec import Communication


def check_communication(training: Training) -> None:
    """Checks a job's communication methods and reports everything that is wrong with them.

    Raises:
        InputError: Keys are relative to the training section.
    """
    asked = training.communication
    if asked is None:
        return
    check_values(asked)
    problems = [*_sharding(training, asked), *_workers(training, asked), *_combinations(training, asked)]
    if problems:
        raise InputError.many(problems)


def check_values(asked: Communication) -> None:
    """Rejects values that are wrong under any layout; estimates divide by some of them.

    Raises:
        InputError: Keys are relative to the training section.
    """
    problems = [
        Problem(message, key=f"communication.{name}.{key}", found=found, allowed=allowed)
        for name, record in asked.parts()
        for message, key, found, allowed in record.problems()
    ]
    if problems:
        raise InputError.many(problems)


def communicates(training: Training) -> bool:
    """Whether a job's communication method works with its layout."""
    try:
        check_communication(training)
    except InputError:
        return False
    return True


def _sharding(training: Training, asked: Communication) -> Iterator[Problem]:
    zero = training.layout.zero
    if asked.compression is not None and zero not in asked.compression.stages:
        allowed = ", ".join(map(str, asked.compression.stages))
        yield Problem(
            f"`{asked.compression.kind}` does not work with gradients that ZeRO-{zero} shards",
            key="communication.compression",
            found=f"zero: {zero}",
            allowed=f"parallelism.zero: {allowed}",
        )
    for name, most in (("asynchronous", 2), ("scheduling", 0), ("sparse", 0)):
        record = getattr(asked, name)
        if record is not None and zero > most:
            yield Problem(
                f"`{record.kind}` needs gradients that are not sharded"
                if most == 0
                else f"`{record.kind}` needs parameters that are not sharded",
                key=f"communication.{name}",
                found=f"zero: {zero}",
                allowed="parallelism.zero: " + ", ".join(str(stage) for stage in range(most + 1)),
            )


def _workers(training: Training, asked: Communication) -> Iterator[Problem]:
    updates, layout = asked.local_updates, training.layout
    if updates is None:
        return
    workers = updates.workers or layout.dp
    key = "communication.local_updates.workers"
    if workers < 2:
        yield Problem("local updates need two workers or more", key=key, found=str(workers), allowed="2 or more")
    elif layout.dp % workers:
        near = ", ".join(str(n) for n in range(2, layout.dp + 1) if layout.dp % n == 0) or "none"
        yield Problem(
            f"{workers} workers do not divide the {layout.dp} data-parallel replicas",
            key=key,
            found=str(workers),
            allowed=near,
        )
    elif layout.tp * layout.cp * layout.dp // workers % (layout.ep * layout.expert_tp):
        yield Problem(
            "a worker holds all experts, but expert groups reach over several workers",
            key=key,
            found=f"ep {layout.ep} over {layout.tp * layout.cp * layout.dp // workers} ranks",
            allowed=f"ep x expert_tp that divides {layout.tp * layout.cp * layout.dp // workers}",
        )
    shard = layout.fsdp_shard
    if workers > 1 and layout.dp % workers == 0 and shard and layout.dp * layout.cp // workers % shard:
        yield Problem(
            "the FSDP shard group does not divide a worker",
            key="parallelism.fsdp_shard",
            found=str(shard),
            allowed=f"a divisor of {layout.dp * layout.cp // workers}",
        )


def _combinations(training: Training, asked: Communication) -> Iterator[Problem]:
    if asked.asynchronous is not None and asked.scheduling is not None:
        yield Problem(
            "gradients that are a step late need no order",
            key="communication.scheduling",
            found=asked.scheduling.kind,
            allowed="`asynchronous` or `scheduling`",
        )
    for name in ("asynchronous", "scheduling"):
        record = getattr(asked, name)
        if record is not None and asked.compression is not None:
            yield Problem(
                f"`{asked.compression.kind}` with `{record.kind}` is not modelled",
                key=f"communication.{name}",
                found=record.kind,
                allowed="one of the two",
            )
    if asked.sparse is not None and training.model.tied_embeddings:
        yield Problem(
            "the table is the output projection too, whose gradient touches every row",
            key="communication.sparse",
            found=f"{training.model.name} ties its embeddings",
            allowed="a model with tables of their own",
        )
    if asked.sparse is not None and asked.compression is not None:
        yield Problem(
            f"`{asked.compression.kind}` with sparse rows is not modelled",
            key="communication.sparse",
            found=asked.sparse.kind,
            allowed="one of the two",
        )
    if asked.dispatch is not None and training.layout.ep == 1:
        yield Problem(
            "no tokens travel to experts: expert parallelism is 1",
            key="communication.dispatch",
            found="ep 1",
            allowed="parallelism.ep above 1",
        )
