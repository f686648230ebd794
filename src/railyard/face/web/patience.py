"""Connections whose client is slow are closed, so that a few hundred of them do not hold all sockets of a server.

A request's heading has to arrive within some seconds, its body and the answer have to go on. Where there are many
connections, the one whose client has kept it waiting longest makes room for a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import asyncio
    from asyncio import TimerHandle

HEADING_S = 20.0
"""For the heading of a request, from the beginning of the connection or the end of the last answer."""
STILL_S = 30.0
"""In which `LEAST_BYTES` of a body arrive, or a client takes some of its answer."""
LEAST_BYTES = 16 << 10
MOST_CONNECTIONS = 512
"""Of a process."""
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
        """What the connection waits for; empty: for the server."""
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
