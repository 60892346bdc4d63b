"""The page as gradio serves it: one component with a template of its own, and three functions that the page calls.

It listens on 127.0.0.1 alone, answers its own page alone, contacts no other host, and refuses requests larger than an
image may be.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from brojepa.demo.images import LARGEST
from brojepa.demo.scene import Scene
from brojepa.errors import RequestError

HOST = "127.0.0.1"
HERE = Path(__file__).parent
FILES = ("page.html", "parts.js", "picker.js", "answers.js", "page.js")
BODY = 3 * LARGEST  # bytes of a request: two images as text, and some words
ASKED = "/gradio_api/component_server"  # where the page's questions go
NAMES = (b"host", b"origin")  # the headers that say for which page a request is, and from which
OWN = re.compile(rb"(https?://)?(127\.0\.0\.1|localhost)(:\d+)?")


class Guard:
    """ASGI middleware in front of gradio. Before a body is read it refuses requests to another host name, requests from
    the pages of other sites (any website that the visitor has open could send some), all POSTs but the page's
    questions, and bodies above a size."""

    def __init__(self, app: Any, most: int = BODY) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or (refused := self._refused(scope)) is None:
            return await self.app(scope, receive, send)
        status, words = refused
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": words})

    def _refused(self, scope: Any) -> tuple[int, bytes] | None:
        """The status and the words with which a request is refused, or None."""
        headers = dict(scope["headers"])
        if scope["type"] != "http" or not all(OWN.fullmatch(headers.get(name, HOST.encode())) for name in NAMES):
            return 403, b"this page is for this machine alone"
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST" or scope["path"].rstrip("/") != ASKED:
            return 405, b"the page asks questions only"
        size = headers.get(b"content-length", b"")
        return None if size.isdigit() and int(size) <= self.most else (413, b"too large")


def answering(ask: Callable[..., dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The function that the page calls: it answers a question, a dictionary, or gives an error of one line."""

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        try:
            return ask(**question)
        except RequestError as error:
            return {"error": str(error)}
        except (TypeError, ValueError, KeyError) as error:  # not a question of the page, or a bug, which shall be seen
            logging.getLogger(__name__).exception("a question without an answer")
            return {"error": f"cannot read the question ({type(error).__name__}): load the page again"}

    answer.__name__ = ask.__name__
    return answer


def page(scene: Scene) -> Any:
    """The gradio app of a scene."""
    gradio = import_module("gradio")
    html, *scripts = ((HERE / name).read_text("utf-8") for name in FILES)
    with gradio.Blocks(title=f"brojepa: {scene.actors[0].label}", analytics_enabled=False, fill_width=True) as app:
        gradio.HTML(
            "",
            html_template=html,
            js_on_load="\n".join(scripts),
            apply_default_css=False,
            server_functions=[answering(each) for each in (scene.act, scene.plan, scene.roll)],
            facts=scene.facts,
            periods=list(scene.group.periods or ()),
        )
    return app


def serve(scene: Scene, port: int | None = None, browser: bool = True, wait: bool = True) -> tuple[Any, str]:
    """Serve the page on this machine alone; the app and its address.

    Args:
        scene: what is shown.
        port: which port; without one, the first free from 7860 on.
        browser: open the page in the browser.
        wait: until Ctrl-C.
    """
    scene.warm_up()
    app = page(scene)
    theme = import_module("gradio").themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    middleware = [import_module("starlette.middleware").Middleware(Guard)]
    for name in ("NO_PROXY", "no_proxy"):  # gradio asks itself whether it is up, without a proxy
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), HOST)))
    try:
        _, url, _ = app.launch(
            server_name=HOST, server_port=port, inbrowser=browser, share=False, quiet=True, ssr_mode=False,
            prevent_thread_lock=True, max_file_size=LARGEST, mcp_server=False, pwa=False, footer_links=[],
            enable_monitoring=False, theme=theme, css=(HERE / "page.css").read_text("utf-8"),
            app_kwargs={"middleware": middleware},
        )  # fmt: skip
    except OSError as error:
        raise RequestError(f"cannot listen on port {port}: {error}; choose another with --port") from None
    print(f"{url}  (Ctrl-C stops it)", flush=True)
    if wait:
        _until_stopped()
        app.server.force_exit = True  # an open page does not delay the end, which uvicorn would report
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        app.close(verbose=False)
    return app, url


def _until_stopped() -> None:
    """Wait for Ctrl-C, or for the signal that ends a service."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(0.5):  # a plain wait would hold signals up on some systems
        pass
