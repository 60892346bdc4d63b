"""Build the site of the documents: `make site`. Warnings are errors; the result is in build/site.

The pages are those of docs/, the README as the first page, examples/README.md, and pages of the API that name what
mkdocstrings reads from the docstrings. Links to files that are no pages lead to the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import brojepa

ROOT = Path(__file__).parent.parent
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
REPOSITORY = "https://github.com/brojepa/brojepa"
OTHERS = {"README.md": "index.md", "examples/README.md": "examples.md"}
"""Pages outside docs/, and what they are called in the site."""

WIDE = r"^\|(?:-+\|){8}"
"""A table that needs the place of the table of contents."""

API = {
    "runs": (
        "Train, load, evaluate",
        "train load evaluate_run inspect_run inspect evaluate Run Result Config preset PRESETS export push "
        "train_decoder pictures infer_accuracy infer_modulus indistinguishable BrojepaError",
    ),
    "models": (
        "Models",
        "Model JEPA Supervised Task Plan build Target Sampled BatchMean Relaxed EMAEncoder VICReg SIGReg Consistency",
    ),
    "actions": ("Latent actions", "LatentAction BlockRotation Representation MLPAction"),
    "worlds": (
        "Worlds",
        "open_world World PoseWorld Split Batch Sampling Transitions LabelledTransitions PoseTransitions",
    ),
    "groups": ("Groups", "Group Cyclic SO2 Product Dihedral SO3"),
    "training": (
        "Callbacks, trackers, evaluators",
        "Callback LiveTable JsonLines Progress Tracker trackers Learner "
        "Evaluator LabelEvaluator RetrievalEvaluator evaluator",
    ),
}
"""The pages of the API: the title of each, and its names in order."""

OPTIONS = {"Config": "show_signature: false", "PRESETS": "show_attribute_values: false"}
"""Where what mkdocstrings shows would fill a page that is there already: config.md."""


def address(page: Path, link: str) -> str:
    """A link of a page, as the site has it: to another page, a picture, or the repository."""
    path, hash_, anchor = link.partition("#")
    if ":" in path or not path:
        return link
    target = (page.parent / path).resolve().relative_to(ROOT)
    if target.as_posix() in OTHERS:
        return OTHERS[target.as_posix()] + hash_ + anchor
    if target.parts[0] == "docs" and (ROOT / target).is_file():
        return target.relative_to("docs").as_posix() + hash_ + anchor
    return f"{REPOSITORY}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target.as_posix()}{hash_}{anchor}"


def prepared(page: Path) -> str:
    """A page with its links as the site has them, without the marks of what is filled in.

    In the cells of a table GitHub wants a backslash before a bar in code, where Python-Markdown would show it.
    """
    text = re.sub(r"^<!-- /?[\w ]+ -->$", "", page.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^\|.*$", _row, text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\]\()[^)\s]+(?=\))", lambda link: address(page, link[0]), text)
    return f"---\nhide: [toc]\n---\n\n{text}" if re.search(WIDE, text, re.MULTILINE) else text


def _row(row: re.Match[str]) -> str:
    """A row of a table: bars in code as they are, and no line break within 0.9956 ± 0.0003."""
    bare = re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), row[0])
    return re.sub(r" (?=[±=↑↓])|(?<=±) ", "\u00a0", bare)


def api() -> dict[str, str]:
    """Pages that name every public object once."""
    listed = [name for _, names in API.values() for name in names.split()]
    if sorted(listed) != sorted(brojepa.__all__):
        raise SystemExit(f"API must list each public name once: {set(listed) ^ set(brojepa.__all__)}")
    return {
        f"api/{page}.md": "\n".join([f"# {title}\n", *map(_directive, names.split())])
        for page, (title, names) in API.items()
    }


def _directive(name: str) -> str:
    """What tells mkdocstrings to describe a public name."""
    options = f"    options:\n      {OPTIONS[name]}\n" if name in OPTIONS else ""
    return f"::: brojepa.{name}\n{options}"


def stage() -> None:
    """Everything that the site is built of, in build/pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "figures", PAGES / "figures", ignore=shutil.ignore_patterns("*.svg"))
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, PAGES)
    shutil.copy(ROOT / "tools" / "site.css", PAGES)
    pages = {file.name: prepared(file) for file in (ROOT / "docs").glob("*.md")}
    pages |= {name: prepared(ROOT / file) for file, name in OTHERS.items()} | api()
    for name, text in pages.items():
        (PAGES / name).parent.mkdir(exist_ok=True)
        (PAGES / name).write_text(text)


def build() -> list[str]:
    """Stage and build; what the tools complain of."""
    stage()
    path = os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if re.search("warning|griffe|error", line, re.I)]
    return said or ([f"zensical failed: {done.stderr}"] if done.returncode else [])


class Page(HTMLParser):
    """What a page of HTML has and asks for: its anchors, the links one may click, and what the browser loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.policy = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.policy |= given.get("http-equiv") == "Content-Security-Policy"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "canonical" not in given["rel"]:
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


def check() -> list[str]:
    """What is wrong with the built site: dead links and pictures, and whatever a browser would load from elsewhere."""
    pages = {file.relative_to(SITE): Page(file.read_text()) for file in SITE.rglob("*.html")}
    wrong = [f"{name}: no policy against other hosts" for name, page in pages.items() if not page.policy]
    for name, page in pages.items():
        for link in (*page.links, *page.loads):
            path, _, anchor = link.partition("#")
            if (path.startswith(("https:", "mailto:")) and link in page.links) or path.startswith("data:"):
                continue
            if re.match(r"\w+:|//", path):
                wrong.append(f"{name} loads {link}")
                continue
            target = Path(os.path.normpath(name.parent / path)) if path else name
            target = target / "index.html" if (SITE / target).is_dir() else target
            if name == Path("404.html"):  # whose links start at the root of the host
                continue
            if not (SITE / target).is_file():
                wrong.append(f"{name} names {link}, which is not there")
            elif anchor and target in pages and anchor not in pages[target].ids:
                wrong.append(f"{name} names {link}, which has no such heading")
    for file in SITE.rglob("*.css"):
        outside = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^)\"']+)", file.read_text())
        wrong += [f"{file.relative_to(SITE)} loads {address}" for address in outside]
    return wrong


def main() -> int:
    wrong = build() or check()
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(wrong)} problems" if wrong else f"the site is in {SITE.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
