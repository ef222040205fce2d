"""A hub of one repository that is only read, over HTTP: enough of the Hub's protocol for its real client to load it."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "c0ffee" + "0" * 34


@contextmanager
def serve(folder: Path, name: str, token: str, kind: str = "models", revision: str = "main"):
    """Serve a folder as the model or data set `name` to whoever has the token; gives the address and the files asked
    for."""
    asked: list[str] = []
    root = "" if kind == "models" else f"/{kind}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def tell(self, content: object) -> None:
            self.answer(200, json.dumps(content).encode(), Content_Type="application/json")

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if self.headers.get("Authorization") != f"Bearer {token}":
                return self.answer(401, X_Error_Code="GatedRepo")
            files = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
            if re.fullmatch(rf"/api/{kind}/{name}(/revision/({revision}|{COMMIT}))?", path):
                siblings = [{"rfilename": file} for file in files if kind == "datasets"]
                return self.tell({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})
            if kind == "datasets" and path == f"/api/{kind}/{name}/tree/{COMMIT}":
                return self.tell([{"type": "file", "path": file, "size": 0, "oid": ""} for file in files])
            if re.fullmatch(rf"/api/{kind}/[^/]+/[^/]+/revision/.+", path):
                return self.answer(404, X_Error_Code="RevisionNotFound" if f"/{name}/" in path else "RepoNotFound")
            found = re.fullmatch(rf"{root}/{name}/resolve/[^/]+/(.+)", path)
            file = folder / found[1] if found else None
            if file is None or not file.is_file():
                return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
            asked.append(found[1])
            body = file.read_bytes()
            return self.answer(200, body, X_Repo_Commit=COMMIT, ETag=f'"{hashlib.sha1(body).hexdigest()}"')

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
