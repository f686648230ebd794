from __future__ import annotations

from pathlib import Path

import pytest

from railyard import catalog as catalogue
from railyard_validation.training.cases import read_cases
from railyard_validation.training.compare import validate_training

RUNS = Path(__file__).parents[2] / "data" / "training" / "runs.csv"


@pytest.fixture(scope="session")
def catalog():
    return catalogue.load()


@pytest.fixture(scope="session")
def cases(catalog):
    """The published runs; nobody may change them."""
    return read_cases(RUNS, catalog)[0]


@pytest.fixture(scope="session")
def report(catalog):
    """The published runs, predicted."""
    return validate_training(RUNS, catalog)
