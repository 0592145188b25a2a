"""Every code block of the README and the guide runs: Python as a doctest, commands in an empty folder."""

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from _pytest.pathlib import fnmatch_ex  # how pytest itself matches --doctest-glob
from typer.testing import CliRunner

from likely import cli

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


CONSOLE = [page for page in PAGES if any(block[2] == "console" for block in BLOCK.findall(page.read_text("utf-8")))]
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


@pytest.mark.heavy
@pytest.mark.parametrize("page", CONSOLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with nothing but the files that the page's own Python blocks write."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = [(language, body) for _, _, language, body in BLOCK.findall(page.read_text(encoding="utf-8"))]
    last = max(place for place, (language, _) in enumerate(blocks) if language == "console")
    for language, body in blocks[: last + 1]:  # what follows is run as a doctest, and no command needs it
        if language in PYTHON:
            for example in doctest.DocTestParser().get_examples(body):
                exec(compile(example.source, str(page), "single"), names)
        elif language == "console":
            for session in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = session.partition("\n")
                result = CliRunner().invoke(cli.build(), shlex.split(command.removeprefix("likely ")))
                assert result.exit_code == 0, result.output
                if shown.strip():
                    assert_alike(shown, result.output)


def assert_alike(shown: str, printed: str) -> None:
    """The same words, and numbers to 2%: last digits differ between machines. A line of dots stands for any lines."""
    texts = ["\n".join(map(str.rstrip, text.strip().splitlines())) for text in (shown, printed)]
    words, printed_words = (NUMBER.sub("#", text) for text in texts)
    assert re.fullmatch(re.escape(words).replace("…", ".*"), printed_words, re.DOTALL), printed
    lines = texts[0].partition("\n…")[0].count("\n") + 1
    numbers = [NUMBER.findall("\n".join(text.splitlines()[:lines])) for text in texts]
    expected, found = ([float(number.replace(",", "")) for number in listed] for listed in numbers)
    assert found == pytest.approx(expected, rel=0.02)


def test_alike_looks_at_words_and_at_numbers() -> None:
    assert_alike("NLL 0.250\n…\nend", "NLL 0.251\nmore 7\nend\n")
    with pytest.raises(AssertionError):
        assert_alike("NLL 0.250", "NLL 0.350")
    with pytest.raises(AssertionError):
        assert_alike("NLL 0.250", "ECE 0.250")
