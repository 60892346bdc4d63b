"""Links and anchors of the documents resolve, as GitHub shows them; the documents stay short; the site names all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "results/README.md")),
    *DOCS,
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.ipynb")),
]
WORDS = 22_000
GENERATED = {"commands", "config"}  # by docs/reference.py
NOTES = {"log"}


def text(path: Path) -> str:
    """A page without its code."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text(path), re.MULTILINE):
        plain = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", heading).lower().strip()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", each) is not None for each in found)
        found.append(f"{name}-{count}" if count else name)
    return set(found)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path):
    links = re.findall(r"\]\(([^)\s]+)\)", text(path)) + re.findall(r'(?:src|href)="([^"]+)"', text(path))
    for link in links:
        if re.match(r"(https?|mailto):", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_links_from_notebooks_to_the_site_name_pages_and_headings():
    for path in PAGES:
        for page, anchor in re.findall(r"https://brojepa\.github\.io/brojepa/([\w-]+)/(?:#([\w-]+))?", text(path)):
            assert (ROOT / "docs" / f"{page}.md").is_file(), page
            assert not anchor or anchor in anchors(ROOT / "docs" / f"{page}.md"), anchor


def listed(entry: object) -> list[str]:
    """The pages that a part of the site's navigation names."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in listed(part)]  # pyright: ignore


def test_the_site_names_every_page_in_the_order_start_guides_reference_science_notes():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert [title for entry in nav for title in entry] == ["Start", "Guides", "Reference", "Science", "Lab notes"]
    pages = listed(nav)
    assert len(set(pages)) == len(pages)
    flat = {page for page in pages if "/" not in page}
    missing = {path.name for path in DOCS} - flat
    assert not missing, f"add to nav of zensical.toml: {missing}"
    assert flat - {path.name for path in DOCS} == {"index.md", "examples.md"}  # the README and examples/README.md


def test_the_documents_are_short():
    """Lab notes aside, and what `make docs` writes. A word has a letter or a digit: the lines of tables are none."""
    filled = re.compile(r"^<!-- ([\w ]+) -->$.*?^<!-- /\1 -->$", re.MULTILINE | re.DOTALL)
    counted = {
        path.name: sum(bool(re.search(r"\w", word)) for word in filled.sub("", path.read_text()).split())
        for path in (ROOT / "README.md", *DOCS)
        if path.stem not in GENERATED | NOTES
    }
    assert sum(counted.values()) <= WORDS, counted
