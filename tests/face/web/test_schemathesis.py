"""Every operation of the published description, asked by Schemathesis with what fits it and what does not.

Slow: `make schemathesis`. No request may end in an error of the server; every answer is one that the description has.
"""

from __future__ import annotations

import os

import pytest

from .conftest import SMALL
from .server import running

schemathesis = pytest.importorskip("schemathesis", reason="Schemathesis is not installed")

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402 - after what may be missing
from hypothesis import strategies as st  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from railyard.face import api  # noqa: E402

EXAMPLES = int(os.environ.get("RAILYARD_SCHEMATHESIS_EXAMPLES", "30"))
"""Requests an operation."""

CHECKS = (not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One with a run and a deployment to be found."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "small.yaml").write_text(SMALL)
    api.run(folder / "small.yaml", engine="analytic", out=folder / "runs")
    (folder / "deployments" / "hall").mkdir(parents=True)
    (folder / "deployments" / "hall" / "index.html").write_text("<title>hall</title>")
    with running(folder) as server:
        yield server


def judge(operation, address):
    """Asks what an operation takes and what it does not, and holds the answers against the description."""
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

    @seed(16)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @given(case=st.one_of([operation.as_strategy(mode) for mode in modes]))
    def ask(case):
        case.call_and_validate(base_url=address, checks=CHECKS, timeout=120)

    ask()


@pytest.mark.slow
def test_no_request_ends_in_an_error_of_the_server(server):
    described = schemathesis.openapi.from_url(f"{server.address}/api/v1/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    wrong = {}
    for operation in operations:
        if operation.path.endswith("/events"):  # never ends
            continue
        try:
            judge(operation, server.address)
        except Exception as error:  # each is named, the others are asked too
            wrong[operation.label] = f"{type(error).__name__}: {error}"[:2000]
    assert wrong == {}
    assert len(operations) > 40
