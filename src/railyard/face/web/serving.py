"""Starts the server and says where it is."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from railyard.face.web.settings import ServerSettings, WorkLimits, checked
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    import asyncio
    from asyncio import TimerHandle
    from collections.abc import Callable

    from fastapi import FastAPI


HEADING_S = 20.0
"""Timeout for the heading of a request, from the start of the connection or the end of the last answer."""
STILL_S = 30.0
"""Time in which `LEAST_BYTES` of a body must arrive, or a client must take some of its answer."""
LEAST_BYTES = 16 << 10
MOST_CONNECTIONS = 512
"""Most connections of a process."""
_LOOK_S = 1.0

_Base: Any = AutoHTTPProtocol


class ImpatientProtocol(_Base):  # type: ignore[misc]
    """HTTP as Uvicorn speaks it, for clients that keep going."""

    _timer: TimerHandle | None = None
    _waits = "heading"
    _since = 0.0
    _received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Makes room where there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(_LOOK_S, self._look)
        if len(self.connections) > MOST_CONNECTIONS:
            slow = [one for one in self.connections if one is not self and one._waiting()]
            min(slow, key=lambda one: one._since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Counts what arrives."""
        self._received += len(data)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _waiting(self) -> str:
        """What the connection waits for: heading, body or reader; empty: for the server."""
        if self.cycle is None or self.cycle.response_complete:
            return "heading"
        if self.flow.write_paused:
            return "reader"
        return "body" if self.cycle.more_body else ""

    def _look(self) -> None:
        now, waits = self.loop.time(), self._waiting()
        if waits != self._waits or (waits == "body" and self._received >= LEAST_BYTES):
            self._waits, self._since, self._received = waits, now, 0
        if waits and now - self._since > (HEADING_S if waits == "heading" else STILL_S):
            self.transport.abort()
            return
        self._timer = self.loop.call_later(_LOOK_S, self._look)


_VARIABLE = "RAILYARD_SERVER"
"""Environment variable by which further processes of one server learn its settings."""


def serve(settings: ServerSettings, *, processes: int, announce: Callable[[str], None]) -> None:
    """Serves until it is stopped.

    Args:
        settings: What it is started with.
        processes: That answer; one of them dispatches jobs.
        announce: Given the address once the port is known to be free.

    Raises:
        InputError: The settings are refused, or the port is taken.
    """
    import uvicorn

    pass

    _refuse_taken(settings)
    settings = checked(settings)
    announce(address_of(settings))
    os.environ[_VARIABLE] = _packed(settings)
    certificate, key = settings.certificate or (None, None)
    uvicorn.run(
        "railyard.face.web.serving:application_of_process",
        factory=True,
        http=ImpatientProtocol,
        host=settings.host,
        port=settings.port,
        workers=processes,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=settings.proxied,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=64 << 10,
    )


def address_of(settings: ServerSettings) -> str:
    """Address for a browser."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.certificate else 'http'}://{host}:{settings.port}/"


def application_of_process() -> FastAPI:
    """The application in one process of a server, from what `serve` left in the environment."""
    import json

    from railyard.face.web.application import application

    given = json.loads(os.environ[_VARIABLE])
    given["folder"] = Path(given["folder"])
    given["limits"] = WorkLimits(**given["limits"])
    given["names"] = tuple(given["names"])
    given["certificate"] = tuple(map(Path, given["certificate"])) if given["certificate"] else None
    return application(ServerSettings(**given))


def _packed(settings: ServerSettings) -> str:
    import json

    return json.dumps(asdict(settings), default=str)


def _refuse_taken(settings: ServerSettings) -> None:
    """Says that a port is taken before anything is announced."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InputError(f"there is no address `{settings.host}`: {error.strerror}", key="host") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            raise InputError(
                f"port {settings.port} of `{settings.host}` cannot be used: {error.strerror}",
                key="port",
                hint="another server may run there; give `--port N`",
            ) from None
