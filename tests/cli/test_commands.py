"""The command line: what it prints, how it ends, and how little it loads before it must."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import likely
from likely import cli

CHECK_IMPORTS = """
import sys, time
start = time.process_time()
from likely.cli import main
sys.argv = ["likely", *{words}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
seconds = time.process_time() - start
print("loaded:", *sorted({{"torch", "pandas", "matplotlib", "sklearn", "scipy"}} & set(sys.modules)))
print("seconds:", seconds)
"""


def likely_command(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), words, env={"LIKELY_DATA": "the data of experiments"})


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["audit", "--help"],
        ["calibrate", "--help"],
        ["predict", "--help"],
        ["info", "--help"],
        ["--version"],
    ],
)
def test_asking_for_words_loads_no_library(words: list[str]) -> None:
    code = CHECK_IMPORTS.format(words=words)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    *_, loaded, seconds = done.stdout.splitlines()
    assert loaded.strip() == "loaded:"
    assert float(seconds.split()[1]) < 2.0  # of the processor, whatever else runs; a third of a second here


HEAVY = (
    "torch",
    "torch._dynamo",
    "matplotlib",
    "lightgbm",
    "sklearn.tree",
    "sklearn.ensemble",
    "pandas",
    "scipy",
    "rich",
)
LOADED_BY = """
import sys
from likely.cli import main
for words in {commands}:
    sys.argv = ["likely", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, stop.code
    print("loaded:", *sorted(set({heavy}) & set(sys.modules)))
"""


def test_a_command_loads_only_what_it_needs(tmp_path: Path) -> None:
    rows = "".join(f"{k % 7},{k * k % 11},{'ab'[k % 2]}\n" for k in range(60))
    table, out = tmp_path / "table.csv", str(tmp_path / "out")
    table.write_text("x,y,label\n" + rows)
    audit = ["audit", str(table), "--out", out]
    code = LOADED_BY.format(commands=[["--version"], audit, [*audit, "--target", "label"]], heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("loaded:")]
    without, labels = {"pandas", "scipy", "rich"}, {"torch", "sklearn.tree", "sklearn.ensemble"}
    assert loaded == [set(), without, without | labels]


def test_it_has_four_commands_and_no_experiment() -> None:
    commands = {command.name or command.callback.__name__ for command in cli.build().registered_commands}
    assert commands == {"audit", "calibrate", "predict", "info"}


def test_version() -> None:
    assert likely_command("--version").stdout.strip() == f"likely {likely.__version__}"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "typer" else True)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == "The likely command needs typer: pip install 'likely[cli]'"


def test_info_for_people_and_for_programs() -> None:
    shown = likely_command("info")
    assert shown.exit_code == 0
    about = json.loads(likely_command("info", "--json").stdout)
    assert list(about) == ["versions", "machine", "torch", "kernels", "libraries", "environment"]
    assert list(about["versions"]) == ["likely", "python", "torch", "numpy", "scipy", "scikit-learn"]
    assert {"cpu", "cores", "memory"} <= set(about["machine"])
    for value in (*about["versions"].values(), *about["libraries"].values()):
        assert value in shown.stdout
    assert "the data of experiments" not in shown.stdout  # which are no part of what is installed


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("likely.exe" if os.name == "nt" else "likely")
    if not script.exists():
        pytest.skip("the package is not installed with its scripts")
    done = subprocess.run([script, "predict", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
