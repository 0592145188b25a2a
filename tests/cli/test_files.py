"""Files and the command line: no input is lost, files are written whole or not at all, and every end has its words."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from likely import _files, auditing, calibration, cli
from pairwise import together

AUDIT = ("report.html", "scores.csv", "summary.json")


def likely_command(*words: object) -> Result:
    return CliRunner().invoke(cli.build(), [str(word) for word in words])


def refused(message: str, *words: object) -> None:
    """The command ends in one line of words, with exit code 2."""
    done = likely_command(*words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("likely: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, a classifier's outputs in two forms, and a model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    logits = 3 * np.eye(3)[labels] + rng.normal(size=(60, 3))
    pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"]).to_csv("a.csv", index=False)
    np.savez("v.npz", logits=logits, labels=labels)
    np.save("z.npy", logits)
    np.save("l.npy", labels)
    calibration.save(calibration.GlobalTemperature().fit(logits, labels), "m.json")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("link", ["", "sub/../", "hard", "soft", "whole"])
def test_no_output_is_an_input_by_whatever_name(folder: Path, link: str) -> None:
    (folder / "sub").mkdir()

    def named(name: str) -> Path:
        other = Path("sub", name)
        if link == "hard":
            os.link(name, other)
        elif link == "soft":
            other.symlink_to(folder / name)
        return other if link in ("hard", "soft") else folder / name if link == "whole" else Path(link + name)

    data, model = named("v.npz"), named("m.json")
    before = contents(folder)
    refused("given as DATA, which would be lost", "calibrate", "v.npz", "--out", data)
    refused("given as DATA, which would be lost", "predict", "m.json", "v.npz", "--out", data)
    (folder / "m.csv").write_bytes((folder / "m.json").read_bytes())
    refused("given as MODEL, which would be lost", "predict", "m.csv", "v.npz", "--out", "m.csv")
    (folder / "m.csv").unlink()
    assert model.exists()
    assert contents(folder) == before


@pytest.mark.parametrize("name", AUDIT)
def test_an_audit_writes_over_none_of_its_inputs(folder: Path, name: str) -> None:
    out = folder / "out"
    out.mkdir()
    os.link("a.csv", out / name)
    before = contents(folder)
    refused("given as --accepted, which would be lost", "audit", "v.npz", "--accepted", out / name, "--out", out)
    refused("given as DATA, which would be lost", "audit", "a.csv", "--out", out)
    (out / name).unlink()
    os.link("l.npy", out / name)
    refused("given as --labels", "audit", "--logits", "z.npy", "--labels", "l.npy", "--out", "out")
    (out / name).unlink()
    assert contents(folder).keys() | {f"out/{name}"} == before.keys()
    report = auditing.audit("a.csv")
    os.link("a.csv", out / name)
    with pytest.raises(ValueError, match=r"given as the data \(.*a.csv\), which would be lost"):
        report.save(out)


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """A limit of the system's that writing meets half-way, as on a disk that is full."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_report_whole(folder: Path) -> None:
    assert likely_command("audit", "a.csv", "--out", "out").exit_code == 0
    before = contents(folder)
    largest = max((folder / "out" / name).stat().st_size for name in AUDIT)
    with no_file_larger_than(largest // 2):
        refused("out/report.html: not written: File too large", "audit", "a.csv", "--random-state", 7, "--out", "out")
    assert contents(folder) == before
    with no_file_larger_than(100):
        refused("p.csv: not written: File too large", "predict", "m.json", "v.npz", "--out", "p.csv")
        refused("n.json: ", "calibrate", "v.npz", "--method", "global", "--cv", 0, "--out", "n.json")
    assert contents(folder) == before


def test_a_full_disk_half_way_leaves_old_files_and_no_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert likely_command("audit", "a.csv", "--out", "out").exit_code == 0
    (folder / "p.csv").write_text("old")
    before = contents(folder)
    synced = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) >= 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = likely_command("audit", "a.csv", "--out", "out")
    assert done.exit_code == 2
    assert done.stderr.startswith("likely: out/")
    assert done.stderr.strip().endswith("No space left on device")
    refused("p.csv: not written: No space left on device", "predict", "m.json", "v.npz", "--out", "p.csv")
    assert contents(folder) == before


def test_the_folder_is_tried_before_any_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "audit", lambda *_, **__: pytest.fail("computed before the folder was tried"))
    refused("a.csv/out: nothing can be written to this folder", "audit", "a.csv", "--out", "a.csv/out")
    (folder / "out" / "report.html").mkdir(parents=True)
    refused("out/report.html: this is a folder", "audit", "a.csv", "--out", "out")
    refused("the folder nowhere of --out does not exist", "calibrate", "v.npz", "--out", "nowhere/m.json")

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("likely._files.tempfile.TemporaryFile", closed)
    refused(
        "new/below: nothing can be written to this folder: Permission denied", "audit", "a.csv", "--out", "new/below"
    )
    assert not (folder / "new").exists()
    refused("nothing can be written to this folder: Permission denied", "calibrate", "v.npz", "--out", "n.json")


def test_a_failed_audit_leaves_no_folder_behind(folder: Path) -> None:
    refused("there is no column 'd'", "audit", "a.csv", "--target", "d", "--out", "new/below")
    assert not (folder / "new").exists()


def test_two_audits_into_one_folder(folder: Path) -> None:
    reports = [auditing.audit({"x": np.arange(30.0) ** 2, f"only {name}": np.arange(30)}) for name in "ab"]
    if not hasattr(_files, "_new_beside"):  # files beside the destination had one name for all threads
        reports = reports[:1]

    def save(report: auditing.Audit) -> None:
        for _ in range(5):
            report.save(folder / "out")

    threads = [threading.Thread(target=save, args=(report,)) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(os.listdir("out")) == sorted(AUDIT)
    json.loads(Path("out/summary.json").read_text())
    assert Path("out/report.html").read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("predict", "--help")])
@pytest.mark.parametrize("closed", [True, False])
def test_output_that_nobody_takes(words: tuple[str, ...], closed: bool) -> None:
    command = [sys.executable, "-c", "from likely.cli import main; main()", *words]
    if closed:
        read, write = os.pipe()
        os.close(read)
    else:
        if not os.path.exists("/dev/full"):
            pytest.skip("there is no /dev/full here")
        write = os.open("/dev/full", os.O_WRONLY)
    try:
        # The package that is tested here, wherever it lies.
        path = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, env=path)
    finally:
        os.close(write)
    assert done.returncode == 2
    assert done.stderr == f"likely: standard output: {'Broken pipe' if closed else 'No space left on device'}\n"


def test_text_from_the_data_is_no_command_to_the_terminal(folder: Path) -> None:
    evil = "\x1b[31mred\x9b2J\u202e\u2028"
    frame = pd.DataFrame({evil: [1] * 40, "größe": np.arange(40.0) ** 2})
    frame.to_csv(f"{evil}.csv", index=False)
    shown = [likely_command("audit", f"{evil}.csv"), likely_command("audit", f"{evil}.csv", "--target", "x" + evil)]
    shown += [
        likely_command("calibrate", f"{evil}.csv"),
        likely_command("predict", f"{evil}.csv", "v.npz", "--out", "p.csv"),
    ]
    for done in shown:
        text = done.output
        assert "red" in text
        assert not set(text) & set("\x1b\x9b\u202e\u2028")
    assert "größe" in shown[2].stderr
    assert shown[0].exit_code == 0
    np.savez("v.npz", **{evil: np.load("z.npy"), "labels": np.load("l.npy")})
    (folder / f"{evil}.npz").write_bytes(Path("v.npz").read_bytes())
    done = likely_command("calibrate", f"{evil}.npz", "--logits", evil, "--method", "global", "--cv", 0)
    assert not set(done.stdout) & set("\x1b\x9b\u202e\u2028")
    assert json.loads(Path("model.json").read_text())["about"]["data"] == f"{evil}.npz"


def test_what_was_guessed_is_told_on_the_terminal_and_in_files(folder: Path) -> None:
    rows = [f"{i % 2};{i / 7:.3f};{(i * i) % 11 / 3:.3f};7" for i in range(60)]
    text = "label;logit_0;logit_1;é\n" + "\n".join(rows).replace(".", ",") + "\n1;2\n"
    (folder / "e.csv").write_bytes(text.encode("latin-1"))
    told = ("read as Windows-1252", "separated by a semicolon", "decimal comma were read in logit_0, logit_1")
    done = likely_command("audit", "e.csv", "--out", "out")
    assert done.exit_code == 0, done.stderr
    notes = json.loads(Path("out/summary.json").read_text())["notes"]
    for part in (*told, "fewer fields than the header, the first is row 60", "Left out of the models: é"):
        assert part in done.stdout
        assert any(part in note for note in notes)
    (folder / "e.csv").write_bytes(text.removesuffix("1;2\n").encode("latin-1"))
    words = ("calibrate", "e.csv", "--method", "global", "--cv", 2, "--out", "n.json")
    shown, about = likely_command(*words), json.loads(Path("n.json").read_text())["about"]
    for part in told:
        assert part in shown.stdout
        assert any(part in note for note in about["notes"])


@together("method", ["global", "linear"])
@together("spoil", ["-inf", "inf", "nan", "huge"])
def test_unusual_logits_are_taken_or_named_by_their_row(folder: Path, spoil: str, method: str) -> None:
    logits = np.load("z.npy")
    if spoil == "huge":
        logits *= 1e300
    else:
        logits[7, (np.load("l.npy")[7] + 1) % 3] = float(spoil)
    np.savez("s.npz", logits=logits, labels=np.load("l.npy"))
    done = likely_command("calibrate", "s.npz", "--method", method, "--cv", 2, "--out", "n.json")
    if done.exit_code:
        assert done.exit_code == 2
        assert "in row 7" in done.stderr
        assert done.stderr.count("\n") == 1
        assert spoil not in ("-inf",) or method != "global"  # a probability of zero
    else:
        assert spoil in ("-inf", "huge")
        assert likely_command("predict", "n.json", "s.npz", "--out", "p.csv").exit_code == 0
        assert pd.read_csv("p.csv").notna().all(axis=None)


def test_a_label_of_probability_zero_has_an_infinite_loss(folder: Path) -> None:
    logits = np.load("z.npy")
    logits[7, np.load("l.npy")[7]] = -np.inf
    np.savez("s.npz", logits=logits, labels=np.load("l.npy"))
    words = ("calibrate", "s.npz", "--method", "platt", "--cv", 2, "--out", "n.json")
    assert "∞" in likely_command(*words).stdout
    assert json.loads(Path("n.json").read_text())["about"]["before"]["NLL"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "m.json", "v.npz", "--out", "p.csv", "--coverage", "0.8"), "--coverage is for regressors"),
        (("predict", "m.json", "v.npz", "--out", "p.csv", "--scale", "s"), "m.json does classification"),
        (("calibrate", "v.npz", "--likelihood", "laplace"), "--likelihood is for regressors"),
        (("audit", "a.csv", "--classes", "a,b"), "classes for a model's outputs"),
        (("audit", "--logits", "z.npy", "--labels", "l.npy", "--task", "regression"), "task is for a table"),
        (("audit", "--target", "a"), "target needs a table"),
        (("audit", "."), "has other columns: "),
        (("audit", "pipe.csv"), "pipe.csv is not a file"),
        (("audit", "--logits", "z.npy", "--labels", "pipe.npy"), "pipe.npy is not a file"),
        (("calibrate", "pipe.csv"), "pipe.csv is not a file"),
        (("predict", "pipe.csv", "v.npz", "--out", "p.csv"), "pipe.csv is not a file"),
        (("audit", "a.csv", "--target", "A"), "there is no column 'A'; did you mean 'a'?"),
        (("audit", "same.csv", "--target", "a"), "has the same value in every row"),
        (("calibrate", "twice.csv", "--method", "global"), "more than one column named 'logit_1'"),
    ],
)
def test_what_would_be_ignored_or_waited_for_is_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    for name in ("pipe.csv", "pipe.npy"):
        os.mkfifo(name)
    Path("same.csv").write_text("a,b\n" + "1,2\n1,3\n" * 20)
    Path("twice.csv").write_text("label,logit_0,logit_1,logit_1\n" + "0,1,2,3\n1,1,2,4\n" * 20)
    before = contents(folder / "nowhere")
    refused(message, *words)
    assert contents(folder / "nowhere") == before
    assert not Path("audit").exists()


def test_names_with_spaces_and_signs(folder: Path) -> None:
    place = folder / "ein Ordner" / "größer 漢字"
    place.mkdir(parents=True)
    (place / "a b.csv").write_bytes(Path("a.csv").read_bytes())
    assert likely_command("audit", place / "a b.csv", "--out", place / "out put").exit_code == 0
    assert likely_command("predict", "m.json", "v.npz", "--out", place / "p.csv").exit_code == 0


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_names_that_are_no_unicode(folder: Path) -> None:
    name = os.fsdecode(b"x\xff.csv")
    (folder / name).write_bytes(Path("a.csv").read_bytes())
    done = likely_command("audit", name, "--out", "out")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("out/summary.json").read_text())["data"] == name


def test_a_mistake_of_our_own_has_one_line_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(auditing, "audit", fail)
    refused("a bug in likely, KeyError: 'lost'", "audit", "a.csv")
    monkeypatch.setenv("LIKELY_TRACEBACK", "1")
    assert isinstance(likely_command("audit", "a.csv").exception, KeyError)
