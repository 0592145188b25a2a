"""A process that has imported what takes seconds, and nothing of the package, and runs tests in forks of itself.

It is started as a script by `mutants`: a request is one line of JSON with the folder that holds a copy of the package,
the arguments of pytest and the seconds to wait; the answer is one line with pytest's exit code, or -1 for a run that
took longer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any


def _serve() -> None:
    for name in ("torch.func", "sklearn.ensemble", "sklearn.linear_model", "scipy.stats", "pandas", "hypothesis"):
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run_tests(request)
        print(_wait(child, time.monotonic() + request["seconds"]), flush=True)


def _run_tests(request: dict[str, Any]) -> None:
    """End with pytest's exit code. Nothing is compiled to disk, where the files of all copies lie together."""
    import pytest

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.setpgid(0, 0)  # what a test starts ends with it
    sys.dont_write_bytecode = True
    sys.path.insert(0, request["folder"])
    own = {"PYTHONPATH": f"{request['folder']}:{os.environ.get('PYTHONPATH', '')}", "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ |= {**own, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    code = 1
    try:
        code = int(pytest.main(request["arguments"]))
    finally:
        os._exit(code)


def _wait(child: int, until: float) -> int:
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose names are those of benchmarks
    _serve()
