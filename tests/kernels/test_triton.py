"""What can be known about the Triton kernels without a GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton: pip install triton")
def test_triton_kernels_by_the_interpreter():
    here = Path(__file__)
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(here.parents[1]), *sys.path])}
    command = [sys.executable, str(here.with_name("interpreted.py"))]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.stdout.endswith("as it should be\n"), run.stderr


def test_importing_likely_loads_no_triton():
    code = "import sys, likely.functional; assert 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
