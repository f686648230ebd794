"""A server over a folder of its own, asked as a browser asks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from railyard.face.web.application import application
from railyard.face.web.settings import ServerSettings, WorkLimits, checked

from .server import Server, running

SMALL = """\
name: small
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, oversubscription: 1:1}, fabric: roce}
workload:
  training: {model: llama-3-8b, tokens: 1 B, global_batch: 16, sequence: 2048, parallelism: {tp: 8, pp: 1, zero: 1}}
"""

LONG = (
    SMALL.replace("name: small", "name: long\nrepeat: 1000").replace("s: 16\n", "s: 256\n").replace("h: 16", "h: 512")
)
"""Takes minutes: nobody waits for its end."""


def serving(settings: ServerSettings) -> TestClient:
    return TestClient(application(checked(settings)), base_url="http://127.0.0.1:8421", client=("127.0.0.1", 50000))


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    (tmp_path / "folder").mkdir()
    # What takes too long is one test's subject; elsewhere a busy machine must not decide.
    return ServerSettings(folder=tmp_path / "folder", limits=WorkLimits(preview_s=120.0))


@pytest.fixture
def client(settings: ServerSettings) -> Iterator[TestClient]:
    with serving(settings) as client:
        yield client


@pytest.fixture
def limited(settings: ServerSettings) -> ServerSettings:
    return replace(settings, limits=replace(settings.limits, body_bytes=20_000, writes_per_min=5, queued=2))


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server that many tests ask about texts and kept runs: the process that looks at them begins once."""
    folder = tmp_path_factory.mktemp("house") / "folder"
    folder.mkdir()
    with serving(ServerSettings(folder=folder, limits=WorkLimits(preview_s=120.0))) as client:
        yield client


@pytest.fixture(scope="session")
def folder(house: TestClient) -> Path:
    """What the house serves."""
    return house.app.state.server.settings.folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as users start it, which several tests give work."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server
