"""A plugin of pytest that writes down which lines of the package each test passes through, and how long it takes.

``LIKELY_REACH=folder pytest -p experiments.benchmarks._reach`` leaves one file per worker.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "likely"
_watch = coverage.Coverage(data_file=None, include=[f"{PACKAGE}/*"])
_passed: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    """Watch the fixtures that this test is the first to ask for: others of its file share them."""
    return (yield from _watched(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Watch the test itself."""
    return (yield from _watched(item))


def _watched(item: pytest.Item) -> Any:
    _watch.start()
    _watch.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        _watch.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Remember the tests that pass, with their time."""
    report = yield
    if report.when == "call" and report.passed:
        _passed[item.nodeid] = report.duration
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what this process has seen."""
    data = _watch.get_data()
    lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for test in _passed:
        data.set_query_context(test)
        for file in data.measured_files():
            if reached := data.lines(file):
                lines[str(Path(file).relative_to(PACKAGE))][test] = reached
    folder = Path(os.environ["LIKELY_REACH"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.json").write_text(json.dumps({"seconds": _passed, "lines": lines}))
