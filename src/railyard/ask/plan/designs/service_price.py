"""What a service is to the economics room: dollars, watts, and the tokens of requests that were in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.price import Paid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.price import Goodputs
    from railyard.catalog import Range
    from railyard.measure.cost.capital import Capex
    from railyard.measure.cost.grids import Grid
    from railyard.measure.cost.power import Power
    from railyard.measure.serving.objective import Goodput, Objective
    from railyard.measure.serving.served import Served

    F = NDArray[np.float64]

SLOWER: tuple[float, ...] = tuple(np.exp(np.linspace(-0.6, 0.6, 25)).tolist())
"""Times that everything may take as long, at which goodput is kept: beyond both ends it is taken as there."""


def kept_of(found: Served, objective: Objective, good: Goodput) -> tuple[float, ...]:
    """Goodput tokens a second where all latencies are as many times as long as `SLOWER` says.

    Queues are stretched as everything else is: what a slower replica adds to them beyond that is left out.

    Args:
        found: Requests as they were served.
        objective: Limits of their latencies.
        good: What came of them.
    """
    tokens = (found.input_tokens + found.output_tokens).astype(np.float64)
    limits = ((objective.ttft_s, found.ttft_s), (objective.tpot_s, found.tpot_s), (objective.e2e_s, found.e2e_s))
    most = np.full(len(found), np.inf)
    for limit, value in limits:
        if limit is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                most = np.fmin(most, limit / value)
    most = np.where(good.ended, most, -np.inf)
    return tuple(float(tokens[most >= slower].sum() / good.window.seconds) for slower in SLOWER)


@dataclass(frozen=True, eq=False)
class Service(Paid):
    """A service with what came of its requests.

    Attributes:
        capex: What it costs to buy.
        power: What it draws.
        bands: What the price of an hour follows from, each a range.
        rack_w: Nameplate power that a rack takes.
        good_tokens_per_s: Of requests in time, prompts and answers.
        attainment: Share of the requests in time.
        goodput_per_s: Requests in time.
        latencies: By name and percentile, s.
        kept: Goodput tokens a second where everything takes as long as `SLOWER` says.
        delivery_s: From the order until the last part is there.
        site: Where it stands; empty where there is one.
        grid: Whose electricity it draws; None: not said.
    """

    capex: Capex
    power: Power
    bands: Mapping[str, Range]
    rack_w: float
    good_tokens_per_s: float
    attainment: float
    goodput_per_s: float
    latencies: Mapping[tuple[str, str], float | None]
    kept: tuple[float, ...]
    delivery_s: float = 0.0
    site: str = ""
    grid: Grid | None = None

    @property
    def inputs(self) -> Mapping[str, Range]:
        """What the price of an hour follows from, each a range."""
        return self.bands

    @property
    def tokens_per_s(self) -> float:
        """Goodput tokens a second."""
        return self.good_tokens_per_s

    def under(self, inputs: Mapping[str, F], slower: F, goodputs: Goodputs) -> dict[str, F]:
        """Objectives of money for other inputs, and where everything takes so many times as long."""
        del goodputs  # replicas that fail are no part of it
        now = np.interp(0.0, np.log(SLOWER), self.kept)
        share = np.interp(np.log(slower), np.log(SLOWER), self.kept) / now
        # Of draws in which nothing is in time a token costs what it costs where one in a thousand is.
        tokens_per_s = self.good_tokens_per_s * np.maximum(share, 1e-3)
        return self.dollars(inputs, tokens_per_s)
