"""Who changed or fetched what and when: a line of JSON for every such request, refused ones too."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READS = {"GET", "HEAD", "OPTIONS"}
_FETCHES = "/api/v1/outputs/"
"""Below it files leave the server."""


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
