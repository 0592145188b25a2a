"""`likely info`: what a bug report needs, whatever is broken or missing, and nothing private."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from likely import cli
from likely._kernels import _native
from likely._page import machine
from likely.cli import info

WITHOUT_EXTRA = """
import importlib.abc, sys
missing = {"typer", "rich", "jinja2", "pandas", "matplotlib", "packaging"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import likely.cli
likely.cli.find_spec = lambda name: None
sys.argv = ["likely", *sys.argv[1:]]
likely.cli.main()
"""


def bare(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_EXTRA, *words], capture_output=True, text=True)


def test_it_needs_no_extra() -> None:
    done = bare("info", "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert not any("error" in section for section in about.values())
    assert about["versions"]["likely"] == metadata.version("likely")


@pytest.mark.parametrize("words", [[], ["audit", "table.csv"], ["info", "--unknown"], ["--help"]])
def test_everything_else_names_the_extra(words: list[str]) -> None:
    done = bare(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'likely[cli]'" in done.stderr


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "likely", "--version"], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == subprocess.run(
            [sys.executable, "-c", "from likely.cli import main; main()", "--version"], capture_output=True, text=True
        ).stdout
    )


def test_what_fails_is_reported_and_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, object]:
        raise OSError("libcudart.so.13:\ncannot open")

    monkeypatch.setattr(info, "machine", broken)
    about = info.report()
    assert about["machine"] == {"error": "OSError: libcudart.so.13: cannot open"}
    assert "error" not in about["versions"]
    assert "OSError: libcudart.so.13" in info.shown(as_json=False)


def test_kernels_are_named_by_file_and_their_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    present = _native.library() is not None
    assert all(str(name).endswith(".so") for name in list(info._kernels().values())[:-1]) == present
    monkeypatch.setattr("likely._native.load", lambda source: None)
    kernels = info._kernels()
    assert [kernels[source] for source in info.SOURCES] == [info.ABSENT] * len(info.SOURCES)


def test_settings_are_shown_and_paths_of_data_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKELY_TRACEBACK", "1")
    monkeypatch.setenv("LIKELY_DATA", "somewhere private")
    monkeypatch.setenv("SECRET", "a password")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    settings = info._environment()
    assert settings["LIKELY_TRACEBACK"] == "1"
    assert settings["OMP_NUM_THREADS"] == "3"
    shown = info.shown(as_json=True)
    assert "somewhere private" not in shown
    assert "a password" not in shown


def test_libraries_are_those_that_extras_for_users_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = machine.libraries()
    assert {"typer", "rich", "pandas"} <= set(libraries)
    assert not {"pytest", "sphinx", "cleanlab", "torch", "likely"} & set(libraries)
    requirements = [
        "numpy>=2; sys_platform == 'linux' and extra == 'gpu'",
        "rich[a]>=1; extra == 'cli'",
        'pytest; extra == "dev"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: requirements)
    assert list(machine.libraries()) == ["rich"]


def test_the_command_prints_the_report(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["likely", "info", "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    assert list(json.loads(capsys.readouterr().out)) == list(info.report())
