"""The example for several processes, as a user would start it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_processes.py"


@pytest.mark.parametrize("wrapped", ["ddp", "fsdp"])
def test_wrong_labels_are_found_under_torchrun(wrapped):
    # By its address: a machine may have a name that it cannot look up.
    options = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    run = [sys.executable, "-m", "torch.distributed.run", *options, str(EXAMPLE), *(["--fsdp"] * (wrapped == "fsdp"))]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"process \d: (\d+) of (\d+) wrong labels among the hottest of (\d+) rows", done.stdout)
    hits, wrong, rows = (list(map(int, column)) for column in zip(*found, strict=True))
    assert rows == ([1024, 1024] if wrapped == "ddp" else [512, 512])
    assert sum(hits) >= 0.8 * sum(wrong)
    assert wrapped == "fsdp" or hits[0] == hits[1]
