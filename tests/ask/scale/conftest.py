"""The cluster that forecasts are for."""

import pytest
from tests.ask.scale.traces import CLUSTER


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(CLUSTER)
    return path
