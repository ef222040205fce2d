"""A local HTTP server with enough of the Hub's protocol for its real client to push to it and load
from it."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

import datasets
import huggingface_hub
import huggingface_hub.constants
import huggingface_hub.hf_api
import pytest
import transformers.utils.hub

from support.server import JsonHandler, served

KINDS = {"models": "", "datasets": "datasets/", "spaces": "spaces/"}
REPOSITORY = r"/api/(models|datasets|spaces)/([^/]+/[^/]+)"


class Hub:
    """The content of the hub, and simulated faults.

    Attributes:
        repositories: branches by kind and name; a branch is a list of commits, oldest first, of
            files by path.
        asked: method and path of all requests.
        downloaded: the files that were downloaded.
        messages: the messages of the commits of all repositories, oldest first.
        private: the names of private repositories.
        fault: the status of the simulated error of a request by method and path, or None.
    """

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], dict[str, list[dict[str, bytes]]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.downloaded: list[str] = []
        self.messages: list[str] = []
        self.private: set[str] = set()
        self.fault: Callable[[str, str], int | str | None] = lambda method, path: None
        self.lock = Lock()
        self.address = ""

    def put(self, kind: str, name: str, folder: Path, branch: str = "main") -> None:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.repositories.setdefault((kind, name), {}).setdefault(branch, []).append(files)

    def files(self, kind: str, name: str, revision: str = "main") -> dict[str, bytes] | None:
        """The files of a branch or commit, None if it does not exist."""
        branches = self.repositories.get((kind, name), {})
        if revision in branches:
            return branches[revision][-1]
        commits = [files for commits in branches.values() for files in commits]
        return next((files for files in commits if commit_of(name, files) == revision), None)


def oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def commit_of(name: str, files: dict[str, bytes]) -> str:
    return oid(repr([name, *((path, oid(files[path])) for path in sorted(files))]).encode())


def entry(path: str, content: bytes | None) -> dict[str, object]:
    """A file, or a folder without content, as the Hub lists it."""
    kind = "directory" if content is None else "file"
    content = content or b""
    return {"type": kind, "path": path, "size": len(content), "oid": oid(content or path.encode())}


class Handler(JsonHandler):
    """Answers requests: each route is a pattern and the method that gets its groups."""

    hub: Hub

    def not_found(self, error: str, **headers: str) -> None:
        self.reply({"error": f"{error} not found"}, 404, X_Error_Code=error, **headers)

    def handle_one(self) -> None:
        path, body = unquote(self.path.partition("?")[0]), self.body()
        with self.hub.lock:
            self.hub.asked.append((self.command, path))
            if fault := self.hub.fault(self.command, path):
                return self.reply({"error": "a fault"}, int(fault))
            if path != VALIDATE and self.headers.get("Authorization") != "Bearer secret":
                return self.reply(b"", 401, X_Error_Code="GatedRepo")
            for pattern, method in ROUTES.items():
                if match := re.fullmatch(pattern, path):
                    return method(self, body, *match.groups())
            return self.not_found("EntryNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = handle_one

    def create(self, body: bytes) -> None:
        data = json.loads(body)
        kind = f"{data.get('type') or 'model'}s"
        name = f"{data.get('organization') or 'me'}/{data['name']}"
        url = f"{self.hub.address}/{KINDS[kind]}{name}"
        if (kind, name) in self.hub.repositories:
            return self.reply({"error": "You already created this repo", "url": url}, 409)
        if data.get("private") or data.get("visibility") == "private":
            self.hub.private.add(name)
        self.hub.repositories[kind, name] = {"main": [{".gitattributes": b""}]}
        return self.reply({"url": url, "name": name, "id": "1"})

    def files(self, kind: str, name: str, revision: str | None) -> dict[str, bytes] | None:
        files = self.hub.files(kind, name, revision or "main")
        if files is None:
            exists = (kind, name) in self.hub.repositories
            self.not_found("RevisionNotFound" if exists else "RepoNotFound")
        return files

    def info(self, body: bytes, kind: str, name: str, revision: str | None) -> None:
        if files := self.files(kind, name, revision):
            siblings = [{"rfilename": file} for file in files]
            info = {"id": name, "sha": commit_of(name, files), "siblings": siblings, "tags": []}
            self.reply(info | {"private": name in self.hub.private, "downloads": 0, "likes": 0})

    def tree(self, body: bytes, kind: str, name: str, revision: str, folder: str | None) -> None:
        if not (files := self.files(kind, name, revision)):
            return
        start = f"{folder.rstrip('/')}/" if folder else ""
        inside = [file for file in files if file.startswith(start)]
        if start and not inside:
            self.not_found("EntryNotFound")
        elif "recursive=true" in self.path.lower():
            self.reply([entry(file, files[file]) for file in inside])
        else:
            top = {start + file.removeprefix(start).partition("/")[0] for file in inside}
            self.reply([entry(name, files.get(name)) for name in sorted(top)])

    def branch(self, body: bytes, kind: str, name: str, branch: str) -> None:
        branches = self.hub.repositories[kind, name]
        branches.setdefault(branch, [branches["main"][-1]])
        self.reply({})

    def preupload(self, body: bytes, *_: str) -> None:
        """No file is uploaded by LFS."""
        modes = {"uploadMode": "regular", "shouldIgnore": False}
        self.reply({"files": [{"path": f["path"], **modes} for f in json.loads(body)["files"]]})

    def commit(self, body: bytes, kind: str, name: str, revision: str) -> None:
        files = dict(self.hub.repositories[kind, name][revision][-1])
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                self.hub.messages.append(value["summary"])
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.hub.repositories[kind, name][revision].append(files)
        commit = commit_of(name, files)
        url = f"{self.hub.address}/{KINDS[kind]}{name}/commit/{commit}"
        self.reply({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def resolve(self, body: bytes, kind: str | None, name: str, revision: str, file: str) -> None:
        if not (files := self.files(kind or "models", name, revision)):
            return
        commit = {"X_Repo_Commit": commit_of(name, files)}
        if file not in files:
            return self.not_found("EntryNotFound", **commit)
        self.hub.downloaded.append(file)
        self.reply(files[file], ETag=f'"{oid(files[file])}"', **commit)


VALIDATE = "/api/validate-yaml"
ROUTES: dict[str, Callable[..., None]] = {
    "/api/repos/create": Handler.create,
    VALIDATE: lambda self, body: self.reply({"errors": [], "warnings": []}),
    "/api/whoami-v2": lambda self, body: self.reply({"type": "user", "name": "me", "orgs": []}),
    rf"{REPOSITORY}(?:/revision/(.+))?": Handler.info,
    rf"{REPOSITORY}/tree/([^/]+)(?:/(.*))?": Handler.tree,
    rf"{REPOSITORY}/branch/(.+)": Handler.branch,
    rf"{REPOSITORY}/preupload/(.+)": Handler.preupload,
    rf"{REPOSITORY}/commit/(.+)": Handler.commit,
    "/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)": Handler.resolve,
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A local hub that this process uses, with an empty cache."""
    hub = Hub()
    with served(Handler, hub=hub) as hub.address:
        _use(hub.address, monkeypatch, tmp_path)
        yield hub


def _use(address, monkeypatch, tmp_path):
    constants = {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": address + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_CACHE": str(tmp_path / "hub-cache"),
    }
    config = {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": False, "HF_DATASETS_OFFLINE": False}
    config["HF_DATASETS_CACHE"] = tmp_path / "datasets-cache"
    for module, values in ((huggingface_hub.constants, constants), (datasets.config, config)):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    # Also what it knows of the hubs of earlier tests.
    huggingface_hub.HfFileSystem.clear_instance_cache()
    monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", address)
    # transformers keeps a client of the first address.
    monkeypatch.setattr(transformers.utils.hub, "_hf_api", None, raising=False)
    monkeypatch.setenv("HF_TOKEN", "secret")
