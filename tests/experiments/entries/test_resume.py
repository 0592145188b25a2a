"""A run goes on where it was: finished entries and units are kept as long as nothing that decides them has changed."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from commands import in_a_process, paper_command
from experiments import paper
from experiments.entries import Context, Entry, Result as Outcome, load, resume
from experiments.entries.resume import origin

KILLED = """
import os, signal, sys
from experiments import paper
from experiments.entries import Entry, Result, resume
from experiments.entries.command_line import application
from experiments.paper._command import reproduce

resume._source = lambda: "the same"  # also where somebody edits the package between the two runs

def told(what):
    print("computed", what, flush=True)
    return what

def unit(number):
    if number == 3 and sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return told(number)

def short(context):
    told("short")
    return Result("holds", "It does.")

def long(context):
    found = [context.once((number,), unit, number) for number in range(1, 5)]
    return Result("holds", f"The sum is {sum(found)}.")

paper.ENTRIES = (
    Entry("short", "Figure", 1, "Short", "A claim.", short), Entry("long", "Figure", 2, "Long", "A claim.", long)
)
application(reproduce)(["--all", "--out", sys.argv[2]])
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entries that ran; the second fails the first time."""
    names: list[str] = []

    def entry(name: str, number: int) -> Entry:
        def run(context: Context) -> Outcome:
            names.append(name)
            if name == "weak" and names.count(name) == 1:
                raise ZeroDivisionError
            return Outcome("holds", "It does.")

        return Entry(name, "Figure", number, name.title(), "A claim.", run)

    monkeypatch.setattr(paper, "ENTRIES", (entry("firm", 1), entry("weak", 2)))
    monkeypatch.setattr(resume, "_source", lambda: "the same")
    return names


def run(out: Path, *words: str) -> Result:
    return paper_command(*words, "--out", str(out))


def test_what_is_finished_is_kept_and_what_failed_is_not(ran: list[str], tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 1
    again = run(tmp_path, "--all")
    assert (again.exit_code, ran) == (0, ["firm", "weak", "weak"])
    assert [line.split()[0] for line in again.stderr.splitlines()] == ["firm", "1", "weak"]
    assert "kept  holds" in again.stderr
    assert "1 of 2 were finished before: --fresh runs them again" in again.stderr
    assert (tmp_path / "report.html").read_text().count("saw “holds”") == 2
    assert run(tmp_path).exit_code == 0
    assert len(ran) == 3


def test_what_is_asked_for_by_name_or_afresh_runs_again(ran: list[str], tmp_path: Path) -> None:
    for words, expected in (((), 2), (("firm",), 3), ((), 4), ((), 4), (("--fresh",), 6)):
        run(tmp_path, *words)
        assert len(ran) == expected


def test_other_settings_data_or_code_run_again(ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    (data / "odds").mkdir(parents=True)
    run(tmp_path, "firm")

    def runs_again(*words: str) -> bool:
        before = ran.count("firm")
        run(tmp_path, *words)
        return ran.count("firm") > before

    assert not runs_again()
    assert runs_again("--quick")
    assert runs_again("--quick", "--seed", "1")
    # An empty folder holds what no folder holds.
    assert not runs_again("--quick", "--seed", "1", "--data", str(data))
    (data / "odds" / "wine.npz").write_bytes(b"12")
    assert runs_again("--data", str(data))
    assert not runs_again("--data", str(data))
    (data / "odds" / "wine.npz").write_bytes(b"123")
    assert runs_again("--data", str(data))
    monkeypatch.setattr(resume, "_source", lambda: "another")
    assert runs_again("--data", str(data))
    monkeypatch.setattr(resume, "versions", lambda: {"torch": "1.2.3"})
    assert runs_again("--data", str(data))


def test_unfinished_downloads_and_hidden_files_are_no_data(tmp_path: Path) -> None:
    empty = origin(Context(data=tmp_path))
    (tmp_path / ".lock").write_text("x")
    (tmp_path / "wine.npz.partial").write_text("x")
    assert origin(Context(data=tmp_path)) == empty
    (tmp_path / "wine.npz").write_text("x")
    assert origin(Context(data=tmp_path)) != empty


def test_a_record_without_an_origin_is_not_kept(ran: list[str], tmp_path: Path) -> None:
    run(tmp_path, "firm")
    made_from = load("firm", tmp_path / "results").made_from
    path = tmp_path / "results" / "firm.json"
    path.write_text(path.read_text().replace(f'"{made_from}"', '""'))
    run(tmp_path)
    assert ran == ["firm", "firm", "weak"]


def test_a_unit_is_computed_once_and_kept_only_when_it_ends_well(tmp_path: Path) -> None:
    context = Context(units=tmp_path)
    calls: list[int] = []

    def double(number: int) -> int:
        calls.append(number)
        return 2 * number if len(calls) > 1 else 1 // 0

    with pytest.raises(ZeroDivisionError):
        context.once((4,), double, 4)
    assert [context.once((4,), double, 4), context.once((4,), double, 4), context.once((5,), double, 5)] == [8, 8, 10]
    assert calls == [4, 4, 5]
    assert [Context().once((4,), double, 4), Context().once((4,), double, 4)] == [8, 8]
    assert len(calls) == 5


def test_after_a_kill_only_the_rest_is_computed(tmp_path: Path) -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-c", KILLED, what, tmp_path / "runs"], capture_output=True, text=True, env=in_a_process()
        )
        for what in ("die", "live")
    )
    assert first.returncode == -9
    assert first.stdout.split() == ["computed", "short", "computed", "1", "computed", "2"]
    assert second.returncode == 0, second.stderr
    assert second.stdout.split()[:4] == ["computed", "3", "computed", "4"]
    assert load("long", tmp_path / "runs" / "results").result.notes == "The sum is 10."
    assert not (tmp_path / "runs" / ".unfinished").exists()
