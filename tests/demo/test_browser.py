"""The page in a real browser: Debian's chromium, driven by Playwright. Draws with the mouse, turns the dial, reads the
answer, changes tabs, and watches what the page asks for.

Not part of the usual tests: `make test-browser`. Screenshots go to the directory that BROJEPA_SCREENSHOTS names.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
LOAD, ANSWER = 3.0, 300  # seconds until the first answer is on the page, and milliseconds for one more
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SEVEN = [(0.25, 0.22), (0.5, 0.2), (0.75, 0.22), (0.66, 0.42), (0.55, 0.62), (0.45, 0.85)]
ONE = [(0.5, 0.15), (0.5, 0.5), (0.5, 0.85)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="make test-browser installs it")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["mnist/fast", "rotation/fast", "torus/fast"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """`brojepa demo` as a user starts it, and its address."""
    words = [sys.executable, "-m", "brojepa", "demo", request.param, "--no-browser"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line
        yield request.param, line.split()[0]
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(10)
        process.stdout.close()
    assert ended == 0, "it ends at once, pages open or not"


class Visit:
    """A visitor: a page of a fresh browser, what it asked for and what went wrong."""

    def __init__(self, browser: Any, url: str, size: dict[str, int], name: str) -> None:
        self.context = browser.new_context(viewport=size)
        self.page, self.asked, self.wrong = self.context.new_page(), [], []
        self.name = f"{name.partition('/')[0]}-{'phone' if size == PHONE else 'desktop'}"
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        begun = time.monotonic()
        self.page.goto(url)
        self.page.wait_for_selector("#bj-act-after")
        self.seconds = time.monotonic() - begun

    def answers(self, question: str) -> tuple[int, int]:
        """How many answers there were to a question, and how many milliseconds the last took."""
        data = self.page.evaluate("() => ({...document.querySelector('[data-ready=yes]').dataset})")
        return int(data.get(f"{question}Answers", 0)), int(data.get(f"{question}Milliseconds", 0))

    def wait(self, question: str, after: int) -> int:
        """Until there is an answer after some; its milliseconds."""
        until = time.monotonic() + 10
        while self.answers(question)[0] <= after:
            assert time.monotonic() < until, f"no answer to {question}"
            time.sleep(0.02)
        return self.answers(question)[1]

    def draw(self, strokes: list[list[tuple[float, float]]], pad: str = "#bj-act-image") -> None:
        before = self.answers("act")[0]
        box = self.page.locator(f"{pad} canvas").bounding_box()
        mouse = self.page.mouse
        for stroke in strokes:
            for i, (x, y) in enumerate(stroke):
                mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=6)
                if i == 0:
                    mouse.down()
            mouse.up()
        self.wait("act", before)

    def press(self, word: str, dials: str = "#bj-act-dials", which: int = 0, question: str = "act") -> int:
        """Press a place of a dial; how long the answer took."""
        before = self.answers(question)[0]
        self.page.locator(f"{dials} svg").nth(which).get_by_label(word, exact=True).locator("circle").click()
        return self.wait(question, before)

    def open(self, tab: str) -> int:
        self.page.get_by_role("tab", name=tab).click()
        return self.wait({"Plan": "plan", "Roll out": "roll"}[tab], 0)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).text_content()

    def shot(self, name: str) -> np.ndarray:
        """A picture of the page when its motions have ended."""
        time.sleep(1.2)
        place = Path(os.environ.get("BROJEPA_SCREENSHOTS", "")) if os.environ.get("BROJEPA_SCREENSHOTS") else None
        data = self.page.screenshot(full_page=True, path=place and place / f"{self.name}-{name}.png")
        assert data[:4] == b"\x89PNG"
        wide = self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, "nothing sticks out at the side"
        return np.asarray(Image.open(io.BytesIO(data)).convert("L"))

    def close(self) -> None:
        outside = [url for url in self.asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))]
        assert outside == []
        assert self.wrong == []
        assert len(self.asked) > 10
        self.context.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_visitor_plays(chromium, served, size):
    name, url = served
    visit = Visit(chromium, url, size, name)
    assert visit.seconds < LOAD
    labelled, torus = name != "rotation/fast", name == "torus/fast"
    visit.shot("act")
    if torus:
        visit.draw([[(x / 2, y) for x, y in SEVEN], [(0.5 + x / 2, y) for x, y in ONE]])
    else:
        visit.draw([SEVEN])
    took = [visit.press("+5"), visit.press("+3")] if labelled else [visit.press("+90°")]
    if torus:
        took.append(visit.press("−4", which=1))
        assert visit.text("#bj-act-after") == "0 7"
    elif labelled:
        assert "7" in visit.text("#bj-act-image .bj-read")
        assert visit.text("#bj-act-after") == "0"
        assert "never trained" in visit.text("#bj-act-dials")
        took.append(visit.press("+1"))
        assert visit.text("#bj-act-after") == "8"
        assert visit.text("#bj-act-dials .said") == "trained on"
        took.append(visit.press("+3"))
    else:
        assert visit.text("#bj-act-after") == "+90°"
    visit.shot("drawn")
    before = visit.answers("act")[0]
    visit.page.locator("#bj-act-image .bj-test").click()
    took.append(visit.wait("act", before))
    before = visit.answers("act")[0]
    visit.page.locator("#bj-both").check()
    took.append(visit.wait("act", before))
    assert visit.page.locator("#bj-other-after").count() == 1
    visit.shot("baseline")
    took.append(visit.open("Plan"))
    assert visit.page.locator("#bj-plan-action").is_visible()
    assert visit.page.locator("#bj-plan-answer .bj-step").count() > 1
    visit.shot("plan")
    took.append(visit.open("Roll out"))
    assert visit.page.locator("#bj-roll-answer .bj-card").count() == 2
    before = visit.answers("roll")[0]
    visit.page.locator("#bj-steps").fill("100")
    took.append(visit.wait("roll", before))
    assert visit.page.locator("#bj-roll-answer .bj-card").first.locator(".bj-sprite").count() == 101
    visit.shot("roll")
    print(f"{visit.name}: {visit.seconds:.2f} s to load, answers in {sorted(took)} ms")
    assert np.median(took) < ANSWER
    visit.close()


def test_hands_and_the_point_move(chromium, served):
    name, url = served
    visit = Visit(chromium, url, DESKTOP, name)
    look = (
        "() => [document.querySelector('.bj-point, .point').getAttribute('cx'), "
        "[...document.querySelectorAll('.bj-clock line:last-child')].map(l => l.getAttribute('x2')).join()]"
    )
    visit.press("−5" if name != "rotation/fast" else "−45°")
    seen = set()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        seen.add(tuple(visit.page.evaluate(look)))
    assert len(seen) > 5
    assert len({hands for _, hands in seen}) > 5
    visit.close()


def test_a_late_answer_does_not_cover_a_drawing_that_was_begun(chromium, served):
    name, url = served
    if name != "mnist/fast":
        pytest.skip("once is enough")
    visit, held = Visit(chromium, url, DESKTOP, name), []
    visit.page.route("**/component_server/", lambda route: held.append(route))
    before = visit.answers("act")[0]
    visit.page.locator("#bj-act-dials").get_by_label("+5", exact=True).locator("circle").click()
    box = visit.page.locator("#bj-act-image canvas").bounding_box()
    visit.page.mouse.move(box["x"] + 60, box["y"] + 60)
    visit.page.mouse.down()
    assert len(held) == 1
    held[0].continue_()
    visit.wait("act", before)
    assert visit.page.locator("#bj-act-image img").is_hidden()
    visit.page.mouse.up()
    visit.close()


def test_a_server_that_has_gone_is_said(chromium, served):
    name, url = served
    if name != "mnist/fast":
        pytest.skip("once is enough")
    visit = Visit(chromium, url, DESKTOP, name)
    for refuse in (lambda route: route.abort(), lambda route: route.fulfill(status=502, body="")):
        visit.page.route("**/component_server/", refuse)
        before = visit.answers("act")[0]
        visit.press("+5" if before == 1 else "+6")
        assert "still running" in visit.text("#bj-error")
        visit.page.unroute("**/component_server/")
    visit.press("+4")
    assert visit.page.locator("#bj-error").is_hidden()
    visit.context.close()  # what failed is in the console


def test_uploads(chromium, served, tmp_path):
    name, url = served
    if name != "mnist/fast":
        pytest.skip("once is enough")
    visit = Visit(chromium, url, DESKTOP, name)
    upload = visit.page.locator("#bj-act-image input[type=file]")
    (tmp_path / "notes.png").write_text("no image at all")
    upload.set_input_files(tmp_path / "notes.png")
    visit.page.wait_for_selector("#bj-error:not([hidden])")
    assert "Pillow" in visit.text("#bj-error")
    (tmp_path / "large.png").write_bytes(b"\0" * 10_000_001)
    upload.set_input_files(tmp_path / "large.png")
    visit.page.wait_for_function("() => document.querySelector('#bj-error').textContent.includes('10 MB')")
    image = np.full((200, 150), 255, np.uint8)
    image[30:170, 70:82] = 0  # a 1, dark on white
    Image.fromarray(image).save(tmp_path / "one.png")
    before = visit.answers("act")[0]
    upload.set_input_files(tmp_path / "one.png")
    visit.wait("act", before)
    assert "1" in visit.text("#bj-act-image .bj-read")
    assert "inverted" in visit.text("#bj-act-image .bj-read")
    assert visit.text("#bj-act-after") == "4"
    assert visit.page.locator("#bj-error").is_hidden()
    visit.close()
