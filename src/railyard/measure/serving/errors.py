"""Bands of model error of a service's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from railyard.measure.model_error import SERVING, power_error, serving_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.measure.model_error import Judged, ModelError, Question
    from railyard.measure.result.model_error import ErrorRow
    from railyard.measure.result.serving import ServingFigures


def serving_errors(serving: ServingFigures, **judged: Unpack[Judged]) -> tuple[ErrorRow, ...]:
    """Medians of first and further tokens, tokens of an accelerator, dollars of a token, power.

    A token's cost errs as throughput does: cautious where requests come slower than the service could answer them.

    Args:
        serving: As predicted.
        judged: Which published deployments it is near to.
    """
    bands = {question: serving_error(question, **judged) for question in SERVING}
    return tuple(_rows(serving, bands))


def _rows(serving: ServingFigures, bands: Mapping[Question, ModelError]) -> Iterator[ErrorRow]:
    if serving.ttft_s.p50 is not None:
        yield bands["ttft"].row("ttft_s", serving.ttft_s.p50)
    if serving.tpot_s.p50 is not None:
        yield bands["tpot"].row("tpot_s", serving.tpot_s.p50)
    rates = bands["throughput"]
    yield rates.row("tokens_per_s_per_gpu", serving.throughput.per_gpu)
    if serving.cpmt is not None:
        total = serving.cpmt.total
        yield rates.row("cpmt", total.typical, inverse=True, prices=total)
    yield power_error().row("power_w", serving.power.total_w.typical)
