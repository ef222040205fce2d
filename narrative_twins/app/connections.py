"""Connections to the web page: how many may be open, and how long a request may take to arrive."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
"""Open connections; further ones are closed at once."""
SECONDS = 30.0
"""The time in which a request must have arrived, headers and body, from the beginning of the
connection or the answer before."""


class BoundedProtocol(H11Protocol):
    """HTTP with limits, which uvicorn lacks: a connection whose request does not arrive in time is
    closed, also one whose body does not end."""

    _limit: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin a connection, or close it."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self.transport.abort()
        else:
            self._limit = self.loop.call_later(SECONDS, self._close_unless_complete)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Read what has arrived: of a first request, or of the next after an answer."""
        super().handle_events()
        if self._is_complete():
            self._stop_waiting()
        elif self._limit is None:
            self._limit = self.loop.call_later(SECONDS, self._close_unless_complete)

    def _is_complete(self) -> bool:
        return self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _close_unless_complete(self) -> None:
        self._limit = None
        if not self._is_complete():
            self.transport.abort()
