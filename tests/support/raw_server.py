"""Servers in this process: one that answers with any bytes, and that of the page."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

from support.processes import LIMIT, wait_until


@contextmanager
def raw_server(respond):
    """A server that reads a request and calls `respond` with the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    closing = threading.Event()

    def serve():
        while not closing.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection):
        with connection:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                respond(connection, closing)
                # The rest of the request is read, since otherwise the answer could be lost.
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        closing.set()
        listener.close()


@contextmanager
def served(app):
    """The port at which an application is served."""
    import uvicorn

    from narrative_twins.app import connections

    options = {"log_level": "critical", "timeout_graceful_shutdown": 1}
    config = uvicorn.Config(app, http=connections.BoundedProtocol, ws="none", **options)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(LIMIT)


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
