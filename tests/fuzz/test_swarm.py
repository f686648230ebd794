"""A short swarm of fixed seeds; `make swarm` plays longer ones."""

import pytest
from tests.fuzz.swarm import play


@pytest.mark.parametrize("seed", [*range(60), 428, 4387])  # the last two: a link goes down while packets wait
def test_what_must_hold_holds(seed):
    play(seed)
