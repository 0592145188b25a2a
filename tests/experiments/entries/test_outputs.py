"""What the two commands write: whole or not at all, and one line where it cannot be written."""

import json
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

from commands import benchmarks_command, paper_command
from experiments import benchmarks, paper
from experiments.benchmarks._history import FILE
from experiments.entries import Bar, Context, Entry, Result as Outcome, load, resume, run_entry, save
from experiments.entries.parts import Picture, Table
from experiments.entries.record import Damaged

# Newer Pythons warn of forks beside threads; the children use none of the parent's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

COMMANDS = {"reproduce": paper_command, "bench": benchmarks_command}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1" viewBox="0 0 1 1">{}</svg>'


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entries that ran; the first draws two pictures."""
    names: list[str] = []

    def entry(name: str, number: int, pictures: int) -> Entry:
        def run(context: Context) -> Outcome:
            names.append(name)
            frame = pd.DataFrame({"x": [1.5]}, index=pd.Index(["a"], name="row"))
            drawn = tuple(Picture(SVG.format(len(names)), "alt", "caption") for _ in range(pictures))
            bars = (Bar("seconds", 1.0, "≤", 2.0),)
            return Outcome("holds", "It does.", (Table(frame, "a caption"),), drawn, bars)

        return Entry(name, "Figure", number, name.title(), "A claim.", run)

    entries = (entry("drawn", 1, 2), entry("plain", 2, 0))
    monkeypatch.setattr(paper, "ENTRIES", entries)
    monkeypatch.setattr(benchmarks, "BENCHES", entries)
    monkeypatch.setattr(resume, "_source", lambda: "the same")
    return names


def run(out: Path, verb: str, *words: str) -> Result:
    return COMMANDS[verb](*words, "--out", str(out))


def refused_in_one_line(found: Result) -> str:
    assert found.exit_code == 2
    assert isinstance(found.exception, SystemExit)
    (line,) = found.stderr.splitlines()
    assert line.startswith("likely: ")
    return line


VERBS = pytest.mark.parametrize("verb", COMMANDS)


@VERBS
def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    verb: str, ran: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("kept")
    line = refused_in_one_line(run(tmp_path / "file" / "out", verb))
    assert f"{tmp_path / 'file' / 'out'}: nothing can be written to this folder: Not a directory" in line
    assert "name another folder by --out" in line
    assert ran == []
    assert os.listdir(tmp_path) == ["file"]


@VERBS
def test_a_read_only_folder_is_refused_before_any_work(
    verb: str, ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    if os.geteuid() == 0:  # who may write everywhere
        monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    tmp_path.chmod(0o555)
    try:
        line = refused_in_one_line(run(tmp_path, verb))
    finally:
        tmp_path.chmod(0o755)
    assert f"{tmp_path}: nothing can be written to this folder: Permission denied" in line
    assert ran == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: '{"format": 1}',
        lambda text: text.replace('"verdict"', '"verdicts"'),
        lambda text: text.replace('"rows": [', '"rows": 3, "old": ['),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_record_is_named_and_its_entry_runs_again(damage, ran: list[str], tmp_path: Path) -> None:
    assert run(tmp_path, "reproduce").exit_code == 0
    path = tmp_path / "results" / "drawn.json"
    whole = path.read_text()
    path.write_text(damage(whole))
    with pytest.raises(ValueError, match=r"drawn\.json is damaged"):
        load("drawn", tmp_path / "results")
    again = run(tmp_path, "reproduce")
    assert again.exit_code == 0
    assert f"likely: {path} is damaged" in again.stderr
    assert "drawn counts as not run" in again.stderr
    assert ran == ["drawn", "plain", "drawn"]
    assert load("drawn", tmp_path / "results") is not None


def test_a_record_damaged_by_others_does_not_stop_another_entry(ran: list[str], tmp_path: Path) -> None:
    run(tmp_path, "reproduce")
    path = tmp_path / "results" / "drawn.json"
    path.write_bytes(b"\xff\xfe")
    again = run(tmp_path, "reproduce", "plain")
    assert again.exit_code == 0
    assert f"likely: {path} is damaged" in again.stderr
    assert "1 not run" in (tmp_path / "report.html").read_text()


def test_a_missing_picture_is_named_and_its_entry_runs_again(ran: list[str], tmp_path: Path) -> None:
    run(tmp_path, "reproduce")
    picture = tmp_path / "results" / "drawn-2.svg"
    picture.unlink()
    again = run(tmp_path, "reproduce")
    assert again.exit_code == 0
    assert f"{picture}, a picture of drawn.json, is missing: drawn counts as not run" in again.stderr
    assert ran == ["drawn", "plain", "drawn"]
    assert picture.exists()


def test_pictures_of_another_run_are_not_shown_as_those_of_the_record(ran: list[str], tmp_path: Path) -> None:
    """As a kill in the middle of saving leaves them."""
    run(tmp_path, "reproduce")
    (tmp_path / "results" / "drawn-1.svg").write_text(SVG.format("another run"))
    again = run(tmp_path, "reproduce")
    assert "drawn-1.svg is not the picture of its record" in again.stderr
    assert ran == ["drawn", "plain", "drawn"]
    assert run(tmp_path, "reproduce").exit_code == 0
    assert len(ran) == 3


def test_a_benchmark_beside_a_damaged_record_goes_on(ran: list[str], tmp_path: Path) -> None:
    assert run(tmp_path, "bench").exit_code == 0
    (tmp_path / "drawn-1.svg").unlink()
    history = tmp_path / FILE
    history.write_text(history.read_text() + '{"name": "pla')  # a process was killed while it wrote
    again = run(tmp_path, "bench", "plain")
    assert again.exit_code == 0
    assert "drawn-1.svg, a picture of drawn.json, is missing: drawn counts as not run" in again.stderr
    assert again.stderr.count(f"line 3 of {history} is damaged and is left out") == 1
    lines = history.read_text().splitlines()
    assert [json.loads(line)["name"] for line in (lines[0], lines[1], lines[3])] == ["drawn", "plain", "plain"]
    assert "Changes are since the run of" in again.stdout


@VERBS
def test_a_disk_that_fills_up_is_told_in_one_line_and_loses_nothing(verb: str, ran: list[str], tmp_path: Path) -> None:
    """The system refuses to let any file grow beyond a limit, in a process of its own."""
    run(tmp_path, verb)
    before = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
            line = refused_in_one_line(run(tmp_path, verb, "plain"))
            assert f"{tmp_path}{'/results' if verb == 'reproduce' else ''}/plain.json was not written" in line
            assert "(File too large)" in line
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_runs_into_one_folder_leave_whole_records(ran: list[str], tmp_path: Path) -> None:
    """Both save the same entry again and again, with pictures of their own, while it is read."""

    def write(number: int) -> None:
        def drawn(context: Context) -> Outcome:
            return Outcome("holds", str(number) * 10_000, (), (Picture(SVG.format(number), "alt", "c"),))

        record = run_entry(Entry("shared", "Figure", 1, "Shared", "A claim.", drawn), Context(), "c")
        for _ in range(30):
            save(record, tmp_path)

    write(0)
    children = []
    for number in (1, 2):
        if (pid := os.fork()) == 0:
            try:
                write(number)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    left = set(children)
    while left:
        try:
            record = load("shared", tmp_path)
        except Damaged as error:  # pictures are files of their own: that they do not fit is noticed, never shown
            assert "not the picture of its record" in str(error)  # noqa: PT017
        else:
            assert record is not None
            assert record.result is not None
            assert record.result.pictures[0].svg == SVG.format(record.result.notes[0])
        left -= {pid for pid in left if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)}
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    assert sorted(os.listdir(tmp_path)) == ["shared-1.svg", "shared.json"]


def test_a_damaged_unit_is_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = Context(units=tmp_path)
    assert context.once(("a",), sum, [1, 2]) == 3
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:3])
    assert context.once(("a",), sum, [1, 2]) == 3
    assert f"{path} is damaged" in capsys.readouterr().err


def test_lines_of_two_writers_stay_whole(tmp_path: Path) -> None:
    from experiments.benchmarks._history import append_whole

    children = []
    for letter in "ab":
        if (pid := os.fork()) == 0:
            try:
                for _ in range(100):
                    append_whole(tmp_path / "lines", (letter * 20_000 + "\n").encode())
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    lines = (tmp_path / "lines").read_text().splitlines()
    assert sorted(lines) == ["a" * 20_000] * 100 + ["b" * 20_000] * 100
