"""Files that others read: citation, workflows, templates, hooks, and what the package says of itself."""

from __future__ import annotations

import re
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from brojepa.exporting.card import CITATION, PAPER, TITLE

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = "https://github.com/brojepa/brojepa"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINS = (ROOT / "constraints.txt").read_text()


def read(name: str):
    return yaml.safe_load((ROOT / name).read_text())


def test_the_version_is_one():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["version"] == read("CITATION.cff")["version"]
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == PROJECT["version"]


def test_the_citation_has_what_the_format_asks_for_and_names_the_paper():
    cited = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert cited["repository-code"] == REPOSITORY
    assert " AND ".join(cited["license"]) == PROJECT["license"]
    assert [author["name"] for author in cited["authors"]] == [author["name"] for author in PROJECT["authors"]]
    [paper] = cited["references"]
    assert (paper["title"], paper["url"]) == (TITLE, f"https://arxiv.org/abs/{PAPER}")
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in CITATION


def test_the_package_says_where_it_lives_and_what_it_runs_on():
    assert all(url.startswith(REPOSITORY) or "brojepa" in url or "arxiv" in url for url in PROJECT["urls"].values())
    classifiers = metadata("brojepa").get_all("Classifier") or PROJECT["classifiers"]
    assert set(PROJECT["classifiers"]) <= {*classifiers, *PROJECT["classifiers"]}
    tested = read(".github/workflows/checks.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == ["3.10", "3.11", "3.12", "3.13"]
    for version in tested:
        assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert PROJECT["requires-python"] == f">={tested[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_targets_that_make_has(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert True in workflow  # YAML's reading of `on`
    made = {target for line in re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            for target in line.split()}  # fmt: skip
    for name, job in workflow["jobs"].items():
        assert job["runs-on"]
        assert job["steps"], name
        assert set([job["needs"]] if "needs" in job else []) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert target in made, target


def test_a_release_is_published_without_a_token():
    jobs = read(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_forms_have_what_github_asks_for(path):
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        return
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["attributes"]["label"] for field in form["body"])


def test_the_hook_runs_the_ruff_that_is_pinned():
    [repository] = read(".pre-commit-config.yaml")["repos"]
    assert f"ruff=={repository['rev'].lstrip('v')}\n" in PINS


def test_every_pin_is_one_version_for_each_python():
    """A pin with a marker has a partner for the other Pythons, and no package is pinned twice for one."""
    pins: dict[str, list[str]] = {}
    for line in PINS.splitlines():
        if line and not line.startswith("#"):
            form = re.fullmatch(r"([\w.-]+)==[\w.]+(?:; python_version ([<>]=? \"3\.\d+\"))?(?:  #.*)?", line)
            assert form, line
            pins.setdefault(form[1].lower(), []).append(form[2] or "")
    for name, markers in pins.items():
        assert sorted(markers) in ([""], ['< "3.11"', '>= "3.11"']), name


def test_the_page_for_agents_is_one_page():
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 60
