"""Bands of model error of a service's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.model_error import power_error, serving_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.result.model_error import ErrorRow
    from railyard.result.serving import ServingFigures


def serving_errors(serving: ServingFigures, *, experts: bool) -> tuple[ErrorRow, ...]:
    """Medians of first and further tokens, tokens of an accelerator, dollars of a token, power.

    A token's cost errs as throughput does: cautious where requests come slower than the service could answer them.

    Args:
        serving: As predicted.
        experts: Whether the model has experts.
    """
    return tuple(_rows(serving, experts))


def _rows(serving: ServingFigures, experts: bool) -> Iterator[ErrorRow]:
    if serving.ttft_s.p50 is not None:
        yield serving_error("ttft", experts=experts).row("ttft_s", serving.ttft_s.p50)
    if serving.tpot_s.p50 is not None:
        yield serving_error("tpot", experts=experts).row("tpot_s", serving.tpot_s.p50)
    rates = serving_error("throughput", experts=experts)
    yield rates.row("tokens_per_s_per_gpu", serving.throughput.per_gpu)
    if serving.cpmt is not None:
        total = serving.cpmt.total
        yield rates.row("cpmt", total.typical, inverse=True, prices=total)
    yield power_error().row("power_w", serving.power.total_w.typical)
