"""Local HTTP servers, for the real clients of the Hub and of language models."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class JsonHandler(BaseHTTPRequestHandler):
    """Reads bodies, and replies in JSON."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, content: object, code: int = 200, **headers: str) -> None:
        """Send bytes, or a value as JSON."""
        is_json = not isinstance(content, bytes)
        body = json.dumps(content).encode() if is_json else content
        headers |= {"Content_Length": str(len(body))}
        headers |= {"Content_Type": "application/json"} if is_json else {}
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignore clients that were killed, and connections that a test drops."""


@contextmanager
def served(handler: type[JsonHandler], **attributes: object) -> Iterator[str]:
    """The address of a server whose handler has these attributes."""
    server = Server(("127.0.0.1", 0), type("Handler", (handler,), attributes))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
