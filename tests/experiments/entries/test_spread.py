"""Entries side by side give what they give one after the other, in processes of this machine and of a Dask cluster."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor

from commands import in_a_process, paper_command as reproduce
from experiments.entries import Context, Entry, Result as Found, resume, spread
from experiments.entries.parts import Table
from experiments.entries.spread import Spread, side_by_side

CHEAP = ("robust-classification", "robust-models")
# Imported by every Python that starts: names of machines are not known, least of all one's own.
NO_NAMES = """
import socket
real = socket.getaddrinfo

def numbers_only(host, *args, **kwargs):
    if isinstance(host, str) and host not in ("", "localhost") and not host.replace(".", "").isdigit():
        raise socket.gaierror(f"nobody knows {host}")
    return real(host, *args, **kwargs)

socket.getaddrinfo = numbers_only
socket.gethostbyname = lambda host: numbers_only(host, 0)[0][4][0]
socket.gethostname = lambda: "nowhere.invalid"
"""
ALONE = """
import sys
from experiments.entries import resume
from experiments.entries.command_line import application
from experiments.paper._command import reproduce

resume._source = lambda: "the same"
if __name__ == "__main__":
    application(reproduce)(sys.argv[1:])
"""


def written(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "results").iterdir())}


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("in-turn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "_source", lambda: "the same")
        assert reproduce(*CHEAP, "--quick", "--out", str(out)).exit_code == 0
    return written(out)


@pytest.fixture
def workers() -> Iterator[None]:
    yield
    get_reusable_executor().shutdown(wait=True)


def test_processes_give_the_same_bytes(
    in_turn: dict[str, bytes], workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "_source", lambda: "the same")
    done = reproduce(*CHEAP, "--quick", "--jobs", "2", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert sorted(line.split()[0] for line in done.stderr.splitlines()) == sorted(CHEAP)
    assert written(tmp_path) == in_turn


def on_a_cluster(backend: str, folder: Path) -> dict[str, bytes]:
    """What a process of its own writes that has ``folder`` in its path."""
    (folder / "run.py").write_text(ALONE)
    words = [*CHEAP, "--quick", "--backend", backend, "--jobs", "2", "--out", str(folder / "runs")]
    environment = in_a_process(folder)
    done = subprocess.run([sys.executable, folder / "run.py", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return written(folder / "runs")


def test_a_dask_cluster_gives_the_same_bytes_where_machines_have_no_names(
    in_turn: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_NAMES)
    assert on_a_cluster("dask", tmp_path) == in_turn


def test_a_ray_cluster_gives_the_same_bytes(in_turn: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    assert on_a_cluster("ray", tmp_path) == in_turn


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that cost nothing, and share all they can."""
    monkeypatch.setattr(spread, "_backend", lambda _: parallel_config("threading", n_jobs=2))


def said(entry: Entry) -> str:
    return f"python -m experiments.paper {entry.name}"


def test_timed_entries_come_last_and_run_alone(threads: None) -> None:
    here = threading.get_ident()
    running: list[str] = []
    beside: dict[str, list[str]] = {}
    places: dict[str, bool] = {}

    def entry(name: str, timed: bool) -> Entry:
        def run(context: Context) -> Found:
            running.append(name)
            beside[name], places[name] = list(running), threading.get_ident() == here
            running.remove(name)
            return Found("holds", "")

        return Entry(name, "Figure", 1, name, "A claim.", run, timed=timed)

    entries = [entry("clock", True), entry("a", False), entry("b", False), entry("stopwatch", True)]
    outcomes = list(side_by_side(entries, Context(), said, Spread(2)))
    names = [outcome.entry.name for outcome in outcomes]
    assert (set(names[:2]), names[2:]) == ({"a", "b"}, ["clock", "stopwatch"])
    assert places == {"a": False, "b": False, "clock": True, "stopwatch": True}
    assert (beside["clock"], beside["stopwatch"]) == (["clock"], ["stopwatch"])
    assert {outcome.record.command for outcome in outcomes} == {said(entry) for entry in entries}


def test_threads_of_one_worker_do_not_share_random_numbers(threads: None) -> None:
    def draws(context: Context) -> Found:
        drawn = [float(torch.rand(())) for _ in range(200)]
        return Found("holds", "", (Table(pd.DataFrame({"drawn": drawn}), "Drawn."),))

    def drawn(jobs: int) -> list[list[float]]:
        entries = [Entry(f"draws-{i}", "Figure", i, "Draws", "A claim.", draws) for i in range(4)]
        outcomes = side_by_side(entries, Context(seed=3), said, Spread(jobs))
        return [outcome.record.result.tables[0].frame["drawn"].tolist() for outcome in outcomes]

    assert all(one == drawn(1)[0] for one in drawn(2))


def test_a_failure_is_a_record_and_every_entry_has_one_core(threads: None) -> None:
    counted: list[int] = []

    def fail(context: Context) -> Found:
        counted.append(torch.get_num_threads())
        raise ZeroDivisionError("nothing left")

    before = torch.get_num_threads()
    entries = [Entry(f"fails-{i}", "Figure", i, "Fails", "A claim.", fail) for i in range(2)]
    errors = [outcome.record.error for outcome in side_by_side(entries, Context(), said, Spread(2))]
    assert errors == ["ZeroDivisionError: nothing left"] * 2
    assert counted == [1, 1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "0"], "--jobs must be 1 or more, or -1 for all cores"),
        (["--backend", "threading"], "--backend must be one of loky, dask, ray; got 'threading'"),
        (["--scheduler", "127.0.0.1:8786"], "say which with --backend dask"),
        (["--backend", "ray"], "--backend ray needs ray: pip install ray"),
    ],
)
def test_what_does_not_fit_together_is_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.paper._command.find_spec", lambda name: None)
    done = reproduce(*words, "--out", str(tmp_path / "runs"))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()
