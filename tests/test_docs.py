"""What the papers at the root say about files and commands is so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.entries import Entry
from experiments.paper import ENTRIES
from experiments.paper._published import all_published, count_verdicts
from pairwise import together

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
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


@pytest.mark.parametrize("folder", ["docs", "examples", "README.md"])
def test_examples_need_no_private_name(folder: str) -> None:
    path = ROOT / folder
    texts = [path] if path.is_file() else [*path.rglob("*.md"), *path.rglob("*.py")]
    private = re.compile(r"likely(\.\w+)*\._[a-z]|from likely[\w.]* import .*\b_[a-z]")
    # The files that make the docs, which begin with an underscore, and conf.py, look inside.
    shown = [
        text for text in texts if not text.name.startswith("_") and text.name != "conf.py" and "_build" not in str(text)
    ]
    assert [text.name for text in shown if private.search(text.read_text())] == []


def test_the_readme_cites_stored_benchmarks() -> None:
    cited = re.findall(r"\| `((?:[a-z]+ ?)+)` \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    names = {name for words in cited for name in words.split()}
    assert names
    assert [name for name in names if not (EXPERIMENTS / "benchmarks" / "results" / f"{name}.json").exists()] == []


@together("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_paper_is_redone_in_full(entry: Entry) -> None:
    stored = json.loads((EXPERIMENTS / "paper" / "results" / f"{entry.name}.json").read_text(encoding="utf-8"))
    assert not stored["quick"]
    assert stored["result"]["verdict"] in ("holds", "holds in part", "does not hold", "open")
    # Until the experiments moved out of the package the command was `likely reproduce`.
    words = stored["command"].removeprefix("likely reproduce ").removeprefix("python -m experiments.paper ")
    # Without --data the folder is the one that LIKELY_DATA names, or there is nothing to read from one.
    assert words.removesuffix(" --data FOLDER") == f"{entry.name} --seed 0"


def test_the_readme_counts_what_holds() -> None:
    assert count_verdicts(all_published()) in " ".join((ROOT / "README.md").read_text().split())


def test_the_lowest_versions_are_those_of_the_project() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "lowest.py", "cli"], capture_output=True, text=True, check=True
    )
    assert {"torch==2.6", "numpy==2.0", "pandas==2.2.2"} <= set(done.stdout.split())
