"""The example for several processes, as a user would start it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_processes.py"
# Three processes import torch once for both: first the example's function under DDP, then all of it under FSDP.
BOTH = """
import gc, os, runpy, sys
from torch import distributed as dist

example, folder = sys.argv[1:]
meet = f"file://{folder}/meet"
dist.init_process_group("gloo", init_method=meet, rank=int(os.environ["RANK"]), world_size=2)
runpy.run_path(example)["main"](fsdp=False)
gc.collect()
dist.destroy_process_group()
sys.argv = [example, "--fsdp"]
runpy.run_path(example, run_name="__main__")
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("torchrun")
    (folder / "both.py").write_text(BOTH)
    # By its address: a machine may have a name that it cannot look up.
    options = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    run = [sys.executable, "-m", "torch.distributed.run", *options, folder / "both.py", EXAMPLE, folder]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("wrapped", "part"), [("ddp", 1024), ("fsdp", 512)])
def test_wrong_labels_are_found_under_torchrun(wrapped: str, part: int, printed: str):
    found = re.findall(rf"process \d: (\d+) of (\d+) wrong labels among the hottest of ({part}) rows", printed)
    hits, wrong, rows = (list(map(int, column)) for column in zip(*found, strict=True))
    assert rows == [part, part]
    assert sum(hits) >= 0.8 * sum(wrong)
    assert wrapped == "fsdp" or hits[0] == hits[1]
