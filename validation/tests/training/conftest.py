from __future__ import annotations

from unittest.mock import patch

import pytest

from railyard import catalog as catalogue
from railyard_validation.training import compare
from railyard_validation.training.leave_out import PUBLISHED, published


@pytest.fixture(scope="session")
def catalog():
    return catalogue.load()


@pytest.fixture(scope="session")
def cases(catalog):
    """The published runs; nobody may change them."""
    return published(catalog)[0]


@pytest.fixture(scope="session")
def report(catalog):
    """The published runs, predicted."""
    with patch.object(compare, "read_cases", lambda table, known: {PUBLISHED: published(known)}[table]):
        return compare.validate_training(PUBLISHED, catalog)
