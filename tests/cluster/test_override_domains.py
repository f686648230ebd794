"""Servers with more accelerators or NICs than their entry names memory domains for."""

import pytest

from railyard.catalog import load
from railyard.cluster.spec import overridden


@pytest.mark.parametrize(
    ("values", "accelerators", "nics"),
    [
        ({"accelerators": 6}, (0, 0, 0, 1, 1, 1), (0,)),
        ({"nics": 3}, (0, 0, 1, 1), (0, 0, 0)),
        ({"nics": 2, "nic_numa": (1, 0)}, (0, 0, 1, 1), (1, 0)),
    ],
)
def test_further_parts_are_dealt_out_as_the_entrys_are(values, accelerators, nics):
    """The host of four TPUs names (0, 0, 1, 1) and one NIC in domain 0."""
    found = overridden(load().server("tpu-v5p-host"), values, "server")
    assert (found.accelerator_numa, found.nic_numa) == (accelerators, nics)
