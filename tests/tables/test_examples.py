"""The example for several processes, as a user would start it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_processes.py"


@pytest.mark.parametrize("wrapped", ["ddp", "fsdp"])
def test_wrong_labels_are_found_under_torchrun(wrapped):
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLE)]
    done = subprocess.run([*run, *(["--fsdp"] * (wrapped == "fsdp"))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"process \d: (\d+) of (\d+) wrong labels among the hottest of (\d+) rows", done.stdout)
    hits, wrong, rows = (list(map(int, column)) for column in zip(*found, strict=True))
    assert rows == ([1024, 1024] if wrapped == "ddp" else [512, 512])
    assert sum(hits) >= 0.8 * sum(wrong)
    assert wrapped == "fsdp" or hits[0] == hits[1]
