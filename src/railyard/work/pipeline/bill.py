"""What the stages of a pipeline cost: what they stand on, and their ports' share of the network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.catalog import Range
from railyard.cluster.bill import bill_of
from railyard.measure.cost.deployment import deployment_cost
from railyard.measure.cost.parts import Part, component_of
from railyard.measure.cost.serving import PaidGoodput
from railyard.work.pipeline.prepare import nics_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.measure.cost.deployment import Use
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.prepare import PipelineJob

_DEVICES = frozenset({"accelerator", "server", "nic"})


def parts(job: PipelineJob) -> Iterator[Part]:
    """The bill: what the stages stand on, and their ports' share of the network."""
    for stage in job.stages.values():
        for one in stage.hardware:
            yield from parts_of(job, one)


def parts_of(job: PipelineJob, hardware: BuiltHardware) -> Iterator[Part]:
    """The same of some devices of the job."""
    share = hardware.count / hardware.cluster.ranks
    for row in bill_of(hardware.cluster):
        if row.kind in _DEVICES:
            yield Part(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)
    bill = bill_of(job.network)
    share = nics_of(hardware) / bill.count("nic")
    for row in bill:
        if row.kind not in _DEVICES:
            yield Part(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)


def usd_per_h(job: PipelineJob, name: str, uses: list[Use], span_s: float) -> Range:
    """What one stage costs an hour: its part of the bill, by itself."""
    if not uses:
        return Range(0.0, 0.0, 0.0)
    alone = replace(job, stages={name: job.stages[name]})
    sold = PaidGoodput(input_tokens=1.0, output_tokens=1.0, seconds=span_s, attainment=1.0)
    return deployment_cost(uses=uses, parts=list(parts(alone)), goodput=sold, assumptions=job.assumptions).usd_per_h
