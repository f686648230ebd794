"""A short swarm of fixed seeds; `make swarm` plays longer ones."""

import pytest
from tests.fuzz.swarm import play
from tests.tables import drawn_seeds


@pytest.mark.parametrize("seed", [428, 4387, *drawn_seeds(20, 60)])  # at first, links go down on waiting packets
def test_what_must_hold_holds(seed):
    play(seed)
