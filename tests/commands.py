"""The two commands of the experiments, as tests call them."""

import os
from pathlib import Path

from typer.testing import CliRunner, Result

from experiments.benchmarks._command import bench
from experiments.entries.command_line import application
from experiments.paper._command import reproduce

ROOT = Path(__file__).parents[1]


def paper_command(*words: str) -> Result:
    return CliRunner().invoke(application(reproduce), words, env={"LIKELY_DATA": None})


def benchmarks_command(*words: str) -> Result:
    return CliRunner().invoke(application(bench), words, env={"LIKELY_DATA": None})


def in_a_process(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds the experiments, wherever it starts, and what the folders hold."""
    path = os.pathsep.join(map(str, (*folders, ROOT, ROOT / "src")))
    return {name: value for name, value in os.environ.items() if name != "LIKELY_DATA"} | {"PYTHONPATH": path}
