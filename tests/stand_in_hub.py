"""A stand-in for the Hugging Face hub: the few routes that making, filling and downloading a repository use.

It keeps repositories in memory, small files as they come with a commit and weights by Git LFS, and remembers what it
was asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_" + "x" * 34  # of nobody


class Hub:
    """What the server knows."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.address = ""

    def commit(self, repo: str) -> str:
        """The name of what a repository holds now."""
        digest = hashlib.sha1()
        for name, data in sorted(self.repos[repo].items()):
            digest.update(name.encode() + hashlib.sha1(data).digest())
        return digest.hexdigest()

    def downloaded(self) -> set[str]:
        """The files that were fetched."""
        return {m[1] for line in self.asked if (m := re.match(r"GET /.+/resolve/\w+/(.+)", line))}


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(_Handler):
        state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the screen."""

    def _answer(self, status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _missing(self, what: str) -> None:
        self._answer(404, {"error": what}, X_Error_Code=what)

    def _route(self) -> None:
        path, hub = self.path.partition("?")[0], self.state
        hub.asked.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.command in ("POST", "PUT") and not allowed and not path.startswith("/object/"):
            return self._answer(401, {"error": "log in"})
        for command, form, route in self.ROUTES:
            if self.command in command and (match := re.fullmatch(form, path)):
                return route(self, body, *match.groups())
        return self._missing("EntryNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = _route

    def _create(self, body: bytes) -> None:
        asked = json.loads(body)
        repo = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
        if repo in self.state.repos:
            return self._answer(409, {"error": "it is there", "url": f"{self.state.address}/{repo}"})
        self.state.repos[repo] = {}
        if asked.get("private") or asked.get("visibility") == "private":
            self.state.private.add(repo)
        return self._answer(200, {"url": f"{self.state.address}/{repo}", "name": repo})

    def _preupload(self, body: bytes, repo: str, revision: str) -> None:
        modes = [
            {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular",
             "shouldIgnore": False, "oid": None}
            for f in json.loads(body)["files"]
        ]  # fmt: skip
        self._answer(200, {"files": modes})

    def _batch(self, body: bytes, repo: str) -> None:
        objects = [
            {"oid": o["oid"], "size": o["size"],
             "actions": {"upload": {"href": f"{self.state.address}/object/{o['oid']}", "header": {}}}}
            for o in json.loads(body)["objects"]
        ]  # fmt: skip
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _put(self, body: bytes, oid: str) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.state.objects[oid] = body
        self._answer(200)

    def _commit(self, body: bytes, repo: str, revision: str) -> None:
        files = self.state.repos[repo]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.state.objects[value["oid"]]
        commit = self.state.commit(repo)
        url = f"{self.state.address}/{repo}/commit/{commit}"
        self._answer(200, {"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def _info(self, body: bytes, repo: str, revision: str | None = None) -> None:
        if repo not in self.state.repos:
            return self._missing("RepoNotFound")
        commit = self.state.commit(repo)
        if revision not in (None, "main", commit):
            return self._missing("RevisionNotFound")
        names = [{"rfilename": name} for name in self.state.repos[repo]]
        return self._answer(200, {"id": repo, "modelId": repo, "sha": commit, "siblings": names, "private": False,
                                  "tags": [], "downloads": 0, "likes": 0})  # fmt: skip

    def _tree(self, body: bytes, repo: str, revision: str) -> None:
        if repo not in self.state.repos:
            return self._missing("RepoNotFound")
        listing = [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in self.state.repos[repo].items()
        ]
        return self._answer(200, json.dumps(listing).encode(), Content_Type="application/json")

    def _yaml(self, body: bytes) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def _resolve(self, body: bytes, repo: str, revision: str, name: str) -> None:
        data = self.state.repos.get(repo, {}).get(name)
        if data is None:
            return self._missing("RepoNotFound" if repo not in self.state.repos else "EntryNotFound")
        tag = f'"{hashlib.sha256(data).hexdigest()}"'
        return self._answer(200, data, ETag=tag, X_Repo_Commit=self.state.commit(repo), Accept_Ranges="none")

    REPO = r"([\w.-]+/[\w.-]+)"
    ROUTES = (
        ("POST", "/api/repos/create", _create),
        ("POST", "/api/validate-yaml", _yaml),
        ("POST", f"/api/models/{REPO}/preupload/(.+)", _preupload),
        ("POST", f"/{REPO}[.]git/info/lfs/objects/batch", _batch),
        ("PUT", "/object/([0-9a-f]{64})", _put),
        ("POST", f"/api/models/{REPO}/commit/(.+)", _commit),
        ("GET", f"/api/models/{REPO}/tree/(.+)", _tree),
        ("GET", f"/api/models/{REPO}(?:/revision/(.+))?", _info),
        ("GET HEAD", f"/{REPO}/resolve/([^/]+)/(.+)", _resolve),
    )
