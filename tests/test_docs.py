"""What the papers at the root say about files and commands is so."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]


@pytest.mark.parametrize("paper", PAPERS)
def test_links_lead_somewhere(paper: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / paper).read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("paper", PAPERS)
def test_make_targets_exist(paper: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    # The words after a `make` that starts a line or a code span, up to its end or a comment.
    calls = re.findall(r"(?:^ *|`)make((?: [a-z]+)+)", (ROOT / paper).read_text(), re.MULTILINE)
    assert {word for call in calls for word in call.split()} <= targets


def test_every_extra_is_pinned() -> None:
    def name(requirement: str) -> str:
        return re.split(r"[\[<>=!~ ]", requirement)[0].lower().replace("_", "-")

    pyproject = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = .*?^\[project.scripts\]", pyproject, re.MULTILINE | re.DOTALL)
    assert listed
    wanted = {name(requirement) for requirement in re.findall(r'"([^"]+)"', listed.group())} - {"likely"}
    pinned = {name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert wanted <= pinned
