"""The application: routes behind the guard, jobs dispatched while it runs, pages next to the API; and its start."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from railyard.face.web.dispatch import Dispatcher
from railyard.face.web.documents import RefusalBody, TextFault
from railyard.face.web.guard import Guard
from railyard.face.web.journal import JobJournal, Status, StatusFirst
from railyard.face.web.looking import Looking, faults_of
from railyard.face.web.routes import context, jobs, outputs, runs, views
from railyard.face.web.routes.context import ServerState
from railyard.face.web.settings import ServerSettings, WorkLimits, checked
from railyard.kit.errors import InputError, RailyardError
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_READS = {"GET", "HEAD", "OPTIONS"}
_FETCHES = "/api/v1/outputs/"
"""Path below which files leave the server."""


class AuditLog:
    """The log.

    Args:
        path: The file; lines are appended, whole even from several processes.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *, person: str | None, address: str, method: str, path: str, status: int) -> None:
        """One line."""
        row = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "person": person,
            "address": address,
            "method": method,
            "path": path[:300],
            "status": status,
        }
        os.write(self._file, (json.dumps(row) + "\n").encode())

    def close(self) -> None:
        """Ends its use."""
        os.close(self._file)


class Audited:
    """ASGI middleware that logs what changes something or fetches files; what else reads passes as it is.

    Args:
        app: What answers.
        log: Where to.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http" or (scope["method"] in _READS and not scope["path"].startswith(_FETCHES)):
            await self.app(scope, receive, send)
            return

        async def logged(message: Message) -> None:
            if message["type"] == "http.response.start":
                client = scope.get("client")
                self.log.write(
                    person=scope["state"]["person"],
                    address=client[0] if client else "?",
                    method=scope["method"],
                    path=_asked(scope),
                    status=message["status"],
                )
            await send(message)

        await self.app(scope, receive, logged)


def _asked(scope: Scope) -> str:
    """The path, and of files which: nothing else says that."""
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query and scope["path"].startswith(_FETCHES) else str(scope["path"])


PREFIX = "/api/v1"

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": RefusalBody, "description": about}
    for status, about in (
        (400, "The request cannot be read, or the scenario is wrong."),
        (401, "A token is needed."),
        (403, "It comes from a page of another site."),
        (404, "Not found."),
        (409, "It was changed in the meantime."),
        (413, "It is too large."),
        (421, "This server has another name."),
        (422, "It does not match this description."),
        (429, "Too many requests."),
    )
}


def application(settings: ServerSettings) -> FastAPI:
    """The application over the folder of the settings.

    Args:
        settings: Checked ones: see `settings.checked`.
    """
    journal = JobJournal(settings.state / "journal.sqlite")
    server = ServerState(settings, journal, Looking(settings), Status(journal))
    app = FastAPI(
        title="Railyard",
        version=version(),
        summary="Scenarios checked, estimated and run; runs listed and read.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_living(server),
        responses=_REFUSALS,
    )
    app.state.server = server
    for router in (
        *(context.router, runs.scenarios, jobs.verbs, jobs.router),
        *(runs.router, runs.answers, outputs.router, views.router),
    ):
        app.include_router(router, prefix=PREFIX)
    _explain_refusals(app)
    app.add_middleware(Audited, log=AuditLog(settings.state / "audit.log"))
    if settings.pages:
        _serve_pages(app)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(StatusFirst, status=server.status)
    app.add_middleware(Guard, settings=settings, journal=journal)
    return app


def _living(server: ServerState) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[None]:
        dispatching = asyncio.create_task(Dispatcher(server.settings, server.journal).serve())
        try:
            yield
        finally:
            dispatching.cancel()
            with suppress(asyncio.CancelledError):
                await dispatching
            await server.looking.close()
            server.journal.close()

    return living


def _explain_refusals(app: FastAPI) -> None:
    @app.exception_handler(RailyardError)
    async def wrong(_request: Request, error: RailyardError) -> JSONResponse:
        faults = faults_of(error)
        return JSONResponse(RefusalBody(error=faults[0].message, faults=faults).model_dump(), status_code=400)

    @app.exception_handler(RequestValidationError)
    async def misshapen(_request: Request, error: RequestValidationError) -> JSONResponse:
        faults = [TextFault(key=".".join(map(str, row["loc"])), message=row["msg"]) for row in error.errors()]
        return JSONResponse(
            RefusalBody(error="the request has another form", faults=faults).model_dump(), status_code=422
        )

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(RefusalBody(error=str(error.detail)).model_dump(), status_code=error.status_code)


def _serve_pages(app: FastAPI) -> None:
    root = files("railyard.face.web").joinpath("static", "ui")
    app.mount("/assets", StaticFiles(directory=str(root.joinpath("assets"))), name="assets")

    @app.get("/", include_in_schema=False, response_class=FileResponse)
    def page() -> FileResponse:
        return FileResponse(str(root.joinpath("ui.html")), headers={"cache-control": "no-cache"})


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
        "railyard.face.web.application:application_of_process",
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
