"""What stands in front of the page lets in what this machine's own page asks, and nothing else. Needs no gradio."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brojepa.demo.page import ASKED, BODY, Guard


def status(method: str = "GET", path: str = "/", kind: str = "http", **headers: str) -> int:
    """With which status a request ends; 200 if it is let in."""
    said: list[dict[str, Any]] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        said.append({"status": 200})

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("refused before the body is read")

    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(Guard(inner)({"type": kind, "method": method, "path": path, "headers": lines}, receive, send))
    return said[0]["status"]


@pytest.mark.parametrize("name", ["127.0.0.1:7860", "localhost:7860", "localhost"])
def test_the_page_itself_is_let_in(name):
    assert status(host=name) == 200
    assert status("POST", ASKED, host=name, origin=f"http://{name}", content_length="500") == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost@evil.example", "192.0.2.1", ""]
)
def test_a_page_of_another_name_is_refused_though_it_leads_here(name):
    """A website may give its name this machine's address; then its scripts would read what is answered."""
    assert status(host=name) == 403
    assert status("POST", ASKED, host=name, content_length="5") == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example", "null", "file://"])
def test_other_pages_cannot_send_here(origin):
    assert status("POST", ASKED, host="127.0.0.1:7860", origin=origin, content_length="5") == 403
    assert status(host="127.0.0.1:7860", origin=origin) == 403


def test_nothing_is_taken_but_questions_of_a_size():
    local = {"host": "127.0.0.1:7860"}
    assert status("POST", "/gradio_api/upload", **local, content_length="5") == 405
    assert status("PUT", ASKED, **local, content_length="5") == 405
    assert status("POST", ASKED, **local, content_length=str(BODY)) == 200
    assert status("POST", f"{ASKED}/", **local, content_length="5") == 200, "as gradio's own client writes it"
    for size in (str(BODY + 1), "-1", "many", ""):
        assert status("POST", ASKED, **local, content_length=size) == 413
    assert status("POST", ASKED, **local) == 413, "of unknown length"
    assert status(kind="websocket", **local) == 403
    assert status(kind="lifespan") == 200
