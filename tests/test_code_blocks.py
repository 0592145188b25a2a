"""Every code block of the README and the guide runs: Python as a doctest, and commands are ones that exist."""

import re
from pathlib import Path

import pytest
from _pytest.pathlib import fnmatch_ex  # how pytest itself matches --doctest-glob

ROOT = Path(__file__).parents[1]
MADE = {"_build", "_generated", "gallery", "generated"}
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in ROOT.glob("docs/**/*.md") if not MADE & set(path.relative_to(ROOT).parts)),
]
BLOCK = re.compile(r"^( *)(`{3,})(?:\{code-block\} )?(\w*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
PYTHON = {"python", "py", "pycon"}
SHELL = {"sh", "bash", "console"}
OTHER = {"", "json", "js", "text", "toml", "yaml", "bibtex"}  # files and other languages, shown and not run
# Commands that install, that other tests run, or that need several processes.
COMMAND = re.compile(
    r"(pip install|make [a-z]+|python -m (experiments|likely)|torchrun|likely (info|audit|calibrate|predict))\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs(page: Path) -> None:
    problems = []
    for _, _, language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = body.strip().splitlines()
        if language in PYTHON and ">>> " not in body:
            problems.append(f"no doctest: {lines[0]}")
        elif language in SHELL:
            # In a console the lines without a prompt are what the command printed.
            commands = [line.strip() for line in lines if language != "console" or line.startswith("$ ")]
            problems += [line for line in commands if line and not COMMAND.match(line.removeprefix("$ "))]
        elif language not in PYTHON | SHELL | OTHER:
            problems.append(f"unknown language: {language}")
    assert problems == []


def test_pages_in_folders_are_doctested(pytestconfig: pytest.Config) -> None:
    globs = pytestconfig.getoption("doctestglob")
    assert [page for page in PAGES if not any(fnmatch_ex(pattern, page) for pattern in globs)] == []
