"""The site builds without a warning, its links and pictures resolve, and a browser loads nothing from outside."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("zensical")
ROOT = Path(__file__).parent.parent


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "site_pages", raising=False)
    return importlib.import_module("site_pages")


def test_the_site_builds_and_needs_nothing_from_outside(site, monkeypatch, tmp_path):
    """In one test, for it takes a while; then the check itself is checked, on a page that was spoiled."""
    assert site.build() == []
    assert site.check() == []
    built = site.SITE / "method" / "index.html"
    page = built.read_text()
    assert page.count("<math") > 50
    assert "$" not in page.split("<article")[1].split("</article>")[0]
    assert (site.SITE / "figures" / "examples.png").is_file()
    for name in ("train", "Model", "BlockRotation"):
        assert any(f'id="brojepa.{name}"' in file.read_text() for file in site.SITE.glob("api/*/index.html"))
    monkeypatch.setattr(site, "SITE", tmp_path)
    (tmp_path / "a.css").write_text("@import 'https://fonts.example.org/a.css';")
    (tmp_path / "index.html").write_text(
        '<p id="x"><a href="gone/">a</a><a href="#y">b</a><a href="https://example.org">c</a>'
        '<img src="https://example.org/a.png"><script src="//example.org/a.js"></script>'
    )
    wrong = "\n".join(site.check())
    for part in ("no policy", "gone/", "#y", "a.png", "a.js", "fonts.example.org"):
        assert part in wrong
    assert len(site.check()) == 6
