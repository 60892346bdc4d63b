"""The page as it is served: gradio on this machine, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.error import HTTPError

import pytest
from conftest import one_line

from brojepa.demo.page import BODY, answering

pytestmark = pytest.mark.skipif(find_spec("gradio") is None, reason="gradio is not installed: make test-browser does")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """`brojepa demo` on a machine whose settings would have it served to all and shared."""
    settings = {"GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SHARE": "true", "GRADIO_ANALYTICS_ENABLED": "True"}
    words = [sys.executable, "-m", "brojepa", "demo", "--no-browser", "--threads", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings})
    assert process.stdout is not None
    with process.stdout:
        yield process.stdout.readline().split()[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def fetched(request: str | urllib.request.Request) -> dict:
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def post(url: str, name: str, question: object) -> dict:
    config = fetched(f"{url}config")
    (component,) = [c["id"] for c in config["components"] if c["type"] == "html"]
    body = {"session_hash": "test", "component_id": component, "fn_name": name, "data": question}
    request = urllib.request.Request(
        f"{url}gradio_api/component_server", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return fetched(request)


def test_it_listens_on_this_machine_alone(url):
    assert url.startswith("http://127.0.0.1:")
    port = int(url.rstrip("/").rpartition(":")[2])
    with socket.socket() as outside, pytest.raises(OSError):  # noqa: PT011
        outside.connect((other_address(), port))


def other_address() -> str:
    """An address of this machine that is not the one it is served on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found = probe.getsockname()[0]
        except OSError:
            found = "127.0.0.2"
    return "127.0.0.2" if found.startswith("127.") else found


def test_it_sends_no_analytics(url):
    config = fetched(f"{url}config")
    assert config["analytics_enabled"] is False
    assert config["max_file_size"] == 10_000_000


def test_questions_are_answered(url):
    answer = post(url, "act", {"source": {"test": 0}, "k": [3]})
    assert answer["sides"][0]["after"] == answer["right"]
    assert post(url, "plan", {"start": {"test": 0}, "goal": {"test": 5}, "allowed": ["+1"]})["sides"][0]["reached"]
    assert post(url, "roll", {"source": {"test": 0}, "k": [1], "steps": 5})["steps"] == 5


def test_bad_questions_get_one_line(url):
    assert "Pillow" in post(url, "act", {"source": {"file": "data:text/plain;base64,aGVsbG8="}, "k": [3]})["error"]
    assert "10 MB" in post(url, "act", {"source": {"file": "data:;base64," + "A" * 14_000_000}, "k": [3]})["error"]
    assert "load the page again" in post(url, "act", {"nonsense": 1})["error"]
    assert "load the page again" in post(url, "act", "nonsense")["error"]


def test_only_the_three_questions_can_be_asked(url):
    for name in ("facts", "look", "__init__", "postprocess"):
        with pytest.raises(HTTPError) as refused:
            post(url, name, {})
        refused.value.close()


def test_a_request_larger_than_images_may_be_is_refused_unread(url):
    host = url.removeprefix("http://").rstrip("/")
    for headers in ({"Content-Length": str(BODY + 1)}, {"Transfer-Encoding": "chunked"}):
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.putrequest("POST", "/gradio_api/component_server")
        for key, value in headers.items():
            connection.putheader(key, value)
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_a_port_that_is_taken_is_one_line(url, brojepa_process):
    done = brojepa_process("demo", "--port", url.rstrip("/").rpartition(":")[2], "--no-browser")
    assert "--port" in one_line(done, 2)


def test_answers_do_not_mix_when_asked_at_once(url):
    answers: dict[int, str] = {}

    def ask(k: int) -> None:
        answers[k] = post(url, "act", {"source": {"test": 0}, "k": [k]})["sides"][0]["after"]

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    start = int(post(url, "act", {"source": {"test": 0}, "k": [0]})["start"])
    assert answers == {k: str((start + k) % 10) for k in range(1, 9)}


def test_a_bug_is_not_hidden_as_a_question():
    def act() -> dict:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        answering(act)({})


WATCHED = """
import atexit, os, signal, socket, sys, threading
asked = set()
def watched(name, old):
    def new(self, address, *rest):
        asked.add(str(address[0]))
        return old(self, address, *rest)
    setattr(socket.socket, name, new)
for name in ("connect", "connect_ex", "sendto"):
    watched(name, getattr(socket.socket, name))
look_up = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **more: (asked.add(str(host)), look_up(host, *rest, **more))[1]
atexit.register(lambda: print(sorted(asked), file=sys.stderr))
import brojepa.demo.page as page
page._until_stopped = lambda: threading.Event().wait(3)
"""


def test_the_server_asks_no_other_machine(brojepa_process):
    """From its start until three seconds after: time enough for what looks for a newer version."""
    done = brojepa_process("demo", "--no-browser", "--threads", 1, prelude=WATCHED)
    assert done.code == 0, done.err
    assert done.out.startswith("http://127.0.0.1:")
    assert done.err.splitlines()[-1] == "['127.0.0.1']"
