"""Fetching EMNIST from a real server on the loopback: whole, cut off and taken up again, wrong, and not there."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from conftest import Outcome, largest_file

from brojepa.errors import BrojepaError, RequestError, RunError
from brojepa.files import cache_dir
from brojepa.worlds import open_world
from brojepa.worlds.download import fetch_emnist
from brojepa.worlds.sources import EMNIST

FILES = [f"{name}.gz" for name in EMNIST.files]
PART = "emnist.zip.part"


class Server(ThreadingHTTPServer):
    """Serves one file; `cut_after` bytes the connection breaks, `sent` counts what went out for each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.cut_after, self.ranges, self.reply = b"", None, True, b""
        self.asked: list[str | None] = []
        self.sent: list[int] = []

    content: bytes
    cut_after: int | None
    ranges: bool
    reply: bytes
    """sent raw instead of HTTP where not empty"""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/gzip.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.asked.append(asked)
        if server.reply:
            self.wfile.write(server.reply)
            return
        if self.path != "/gzip.zip":
            self.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.ranges else 0  # type: ignore[index]
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if asked and server.ranges else 200)
        self.send_header("Content-Length", getattr(server, "length", None) or str(len(body)))
        self.end_headers()
        body = body[: server.cut_after]
        server.sent.append(len(body))
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def zipped(letters: Path, leave_out: str = "") -> bytes:
    """An archive like EMNIST's: all in a folder, other files beside the letters."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("gzip/emnist-mnist-train-images-idx3-ubyte.gz", b"not wanted")
        for path in sorted(letters.iterdir()):
            if path.name != leave_out:
                file.write(path, f"gzip/{path.name}")
    return buffer.getvalue()


@pytest.fixture
def archive(letters: Path, server: Server) -> bytes:
    server.content = zipped(letters)
    return server.content


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def failure(call: Callable[[], object], kind: type[BrojepaError] = RunError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_four_files_arrive_and_open(server: Server, archive: bytes, letters: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    place = tmp_path / "new" / "place"
    world = fetch_emnist(place, url=server.url, md5=md5(archive), progress=lambda *at: told.append(at))
    assert names(place) == sorted(FILES)
    for name in FILES:
        assert (place / name).read_bytes() == (letters / name).read_bytes()
    assert torch.equal(world.train.images, open_world("emnist", letters).train.images)
    assert told[-1] == (len(archive), len(archive))


def test_a_cut_download_goes_on_where_it_was(server: Server, archive: bytes, tmp_path: Path) -> None:
    server.cut_after = 1000
    message = failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(archive)))
    assert f"after 1000 of {len(archive)} bytes" in message
    assert "repeat" in message
    assert names(tmp_path) == [PART]
    assert (tmp_path / PART).read_bytes() == archive[:1000]

    server.cut_after = 500  # and once more
    assert "after 1500 of" in failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(archive)))

    server.cut_after = None
    fetch_emnist(tmp_path, url=server.url, md5=md5(archive))
    assert server.asked == [None, "bytes=1000-", "bytes=1500-"]
    assert server.sent == [1000, 500, len(archive) - 1500]
    assert names(tmp_path) == sorted(FILES)


def test_a_server_without_ranges_starts_anew(server: Server, archive: bytes, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / PART).write_bytes(archive[:1000])
    fetch_emnist(tmp_path, url=server.url, md5=md5(archive))
    assert server.sent == [len(archive)]
    assert names(tmp_path) == sorted(FILES)


def test_an_archive_that_was_whole_is_not_sent_again(server: Server, archive: bytes, tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(archive)
    fetch_emnist(tmp_path, url=server.url, md5=md5(archive))
    assert server.sent == []
    assert names(tmp_path) == sorted(FILES)


def test_a_wrong_sum_removes_the_file(server: Server, archive: bytes, tmp_path: Path) -> None:
    wrong = md5(b"something else")
    message = failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=wrong))
    assert wrong in message
    assert md5(archive) in message
    assert names(tmp_path) == []


def test_a_part_of_something_else_is_found_out_and_not_kept(server: Server, archive: bytes, tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(b"x" * 1000)
    failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(archive)))
    assert names(tmp_path) == []
    fetch_emnist(tmp_path, url=server.url, md5=md5(archive))
    assert names(tmp_path) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_archive_that_lacks_a_file_is_not_emnist(server: Server, letters: Path, tmp_path: Path, name: str) -> None:
    server.content = zipped(letters, leave_out=name)
    message = failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(server.content)))
    assert f"no {name}" in message
    assert names(tmp_path) == [PART]


def test_what_is_no_zip_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>Sign in to the network</html>"
    assert "zip" in failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(server.content)))
    assert names(tmp_path) == [PART]


@pytest.mark.parametrize("kind", ["closed port", "not found", "no HTTP"])
def test_no_download_says_how_to_do_without(server: Server, archive: bytes, tmp_path: Path, kind: str) -> None:
    url = server.url
    if kind == "closed port":
        url = f"http://127.0.0.1:{closed_port()}/gzip.zip"
    elif kind == "not found":
        url += "x"
    else:
        server.reply = b"SSH-2.0-OpenSSH_9.6\r\n"
    message = failure(lambda: fetch_emnist(tmp_path / "here", url=url))
    assert all(name in message for name in FILES)
    assert str(tmp_path / "here") in message
    assert names(tmp_path / "here") == []


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("url", ["gzip.zip", "htp://127.0.0.1/gzip.zip", ""])
def test_what_is_no_address_is_a_wrong_request(tmp_path: Path, url: str) -> None:
    assert "--url" in failure(lambda: fetch_emnist(tmp_path / "here", url=url), RequestError)
    assert not (tmp_path / "here").exists()


def test_a_place_that_cannot_be_written_is_one_line(server: Server, archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = failure(lambda: fetch_emnist(tmp_path / "file" / "below", url=server.url, md5=md5(archive)))
    assert str(tmp_path / "file" / "below") in message


def test_a_full_disk_leaves_no_half_file(server: Server, archive: bytes, letters: Path, tmp_path: Path) -> None:
    """The archive is there; there is no room to unpack its largest file."""
    (tmp_path / PART).write_bytes(archive)
    with largest_file(max(path.stat().st_size for path in letters.iterdir()) - 1):
        message = failure(lambda: fetch_emnist(tmp_path, url=server.url, md5=md5(archive)))
    assert "File too large" in message
    left = set(names(tmp_path)) - {PART}
    assert left < set(FILES)
    for name in left:
        assert (tmp_path / name).read_bytes() == (letters / name).read_bytes()
    assert len(fetch_emnist(tmp_path, url=server.url, md5=md5(archive)).train) == 260
    assert server.sent == []
    assert names(tmp_path) == sorted(FILES)


# Through the command line


def test_fetch_offline_is_one_line_with_the_way_out(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/gzip.zip"
    done = cli("data", "fetch", "emnist", "--url", url, "--data-dir", tmp_path / "here")
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(r"brojepa: error: .*\n", done.err)
    assert all(name in done.err for name in (*FILES, url, str(tmp_path / "here")))
    assert names(tmp_path / "here") == []


def test_fetch_goes_to_the_cache_and_checks_the_official_sum(
    cli: Callable[..., Outcome], server: Server, archive: bytes
) -> None:
    done = cli("data", "fetch", "emnist", "--url", server.url)
    assert done.code == 1
    assert re.fullmatch(r"brojepa: error: .*58c8d27c78d21e728a6bc7b3cc06412e.*\n", done.err)
    assert server.sent == [len(archive)]
    assert names(cache_dir()) == []


@pytest.mark.parametrize("world", [[], ["mnist"], ["cifar"]])
def test_only_emnist_is_fetched(cli: Callable[..., Outcome], world: list[str]) -> None:
    done = cli("data", "fetch", *world)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"brojepa: error: .*data fetch emnist.*\n", done.err)


@pytest.mark.parametrize("length", ["many", "-5", "1e3", "9" * 5000, "²"])
def test_a_length_that_is_none_is_not_needed(server: Server, archive: bytes, tmp_path: Path, length: str) -> None:
    server.length = length  # type: ignore[attr-defined]
    told: list[int | None] = []
    fetch_emnist(tmp_path, url=server.url, md5=md5(archive), progress=lambda have, total: told.append(total))
    assert names(tmp_path) == sorted(FILES)
    assert set(told) == {None}


@pytest.mark.parametrize("url", ["http://[::1", "http://host:port/x", "https://a b/c", "http://", "", "ftp://x"])
def test_an_address_that_is_none_is_one_line(cli: Callable[..., Outcome], tmp_path: Path, url: str) -> None:
    done = cli("data", "fetch", "emnist", "--url", url, "--data-dir", tmp_path)
    assert done.code in (1, 2)
    assert len(done.err.splitlines()) == 1
    assert "unexpected" not in done.err
    assert url in done.err
