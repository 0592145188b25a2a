"""Would a test notice? Small mistakes are planted in the code, one at a time, and the tests that pass there are run."""

from __future__ import annotations

import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from experiments.benchmarks._bars import result_of
from experiments.entries import Bar, Context, Result
from likely._page import Table

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "likely"
# What must not change unnoticed, as patterns in the package.
PARTS = {
    "likelihoods": "likelihoods/*.py",
    "parameters": "parameters/*.py",
    "optim": "optim.py",
    "solvers": "_solvers/*.py",
    "calibration": "calibration/**/*.py",
    "thresholds": "outliers/*threshold*.py",
    "pooling": "tabular/**/*pool*.py",
    "verdicts": "auditing/**/*verdict*.py",
}
MUTANTS, SHARE = 400, 0.85
PER_FUNCTION, SECONDS, LIMIT = 6, 40.0, 120  # tests of one function, of their time in all; until a test hangs

COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
JOINED = {ast.And: ast.Or, ast.Or: ast.And}


class Mutant(NamedTuple):
    """A mistake: the file, the line, what stood there, and what stands there now, in which node of the file."""

    part: str
    path: Path
    line: int
    before: str
    after: str
    node: int

    @property
    def file(self) -> str:
        """Its name in the package."""
        return str(self.path.relative_to(PACKAGE))

    def source(self) -> str:
        """The file with the mistake in it."""
        tree = ast.parse(self.path.read_text())
        _mistake(list(ast.walk(tree))[self.node])
        return ast.unparse(tree)


def mutants(part: str, path: Path) -> Iterator[Mutant]:
    r"""Every mistake of one operator, number or condition in a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "likely.py")
    ...     _ = path.write_text("def f(x: int = 1):\n    return x + 2 if x < 3 else None")
    ...     [mutant.after for mutant in mutants("", path)]
    ['2', 'x + 2 if not x < 3 else None', 'x <= 3', 'x - 2', '4', '3']
    """
    nodes = list(ast.walk(ast.parse(path.read_text())))
    unseen = {id(inner) for outer in nodes for hidden in _unseen(outer) for inner in ast.walk(hidden)}
    for position, node in enumerate(nodes):
        wrong = None if id(node) in unseen else _mistake(copy.copy(node))
        if wrong is not None:
            before = ast.unparse(node.test if isinstance(node, ast.If) else node)
            yield Mutant(part, path, node.lineno, before, ast.unparse(wrong), position)  # type: ignore[attr-defined]


def _unseen(node: ast.AST) -> list[ast.AST]:
    """Annotations, docstrings, the words of errors and the names of types: no mistake there changes a result."""
    match node:
        case ast.arg() | ast.AnnAssign() if node.annotation:
            return [node.annotation]
        case ast.FunctionDef() if node.returns:
            return [node.returns, *node.decorator_list]
        case ast.Raise() | ast.JoinedStr() | ast.Assert():
            return [node]
        case ast.Call(func=ast.Name(id="TypeVar" | "Literal" | "cast")):
            return [node]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return [node]
    return []


def _mistake(node: ast.AST) -> ast.AST | None:
    """Make a mistake in this node, and return what now stands there; None where there is none to make."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            node.ops = [COMPARED[type(op)]()]
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            node.op = COMPUTED[type(op)]()
        case ast.BoolOp(op=op):
            node.op = JOINED[type(op)]()
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
            return node if isinstance(node, ast.IfExp) else node.test
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name() | ast.Call() | ast.Attribute()):
            node.op = ast.UAdd()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1 if isinstance(value, int) else value * 2 + (value == 0)
        case _:
            return None
    return node


class Reached(NamedTuple):
    """Which tests pass through a line of a file, which through the file, and how long each takes."""

    lines: dict[tuple[str, int], set[str]]
    files: dict[str, set[str]]
    seconds: dict[str, float]

    @classmethod
    def read(cls, folder: Path) -> Reached:
        """What the workers of one run of the suite have written."""
        found = cls(defaultdict(set), defaultdict(set), {})
        for file in folder.glob("*.json"):
            stored = json.loads(file.read_text())
            found.seconds.update(stored["seconds"])
            for name, tests in stored["lines"].items():
                for test, lines in tests.items():
                    found.files[name].add(test)
                    for line in lines:
                        found.lines[name, line].add(test)
        return found

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The quickest tests that could notice, some of each function, of at most 40 s; of the file if none is there.

        What runs when a module is imported is no test's own.
        """
        tests = self.lines.get((mutant.file, mutant.line)) or self.files.get(mutant.file, set())
        chosen, spent, times = [], 0.0, Counter[str]()
        for test in sorted(tests, key=lambda name: (self.seconds[name], name)):
            function = test.split("[")[0]
            times[function] += 1
            if times[function] <= PER_FUNCTION and spent < SECONDS:
                chosen.append(test)
                spent += self.seconds[test]
        return chosen


def reach(folder: Path, jobs: int, *tests: str) -> Reached:
    """Run the tests once, those that are not heavy, and see where they pass."""
    if not any(folder.glob("*.json")):
        command = [*pytest_command(), "-n", str(jobs), "--dist", "worksteal", "-m", "not heavy", *tests]
        environment = {**os.environ, "LIKELY_REACH": str(folder), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}:{_path()}"}
        subprocess.run([*command, "-p", "experiments.benchmarks._reach"], cwd=ROOT, env=environment, check=False)
    return Reached.read(folder)


def pytest_command() -> list[str]:
    """Pytest without what one run leaves for the next; old and new libraries may warn."""
    plain = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-o", "filterwarnings=ignore"]
    return [*plain, "--continue-on-collection-errors"]


def _path() -> str:
    return os.environ.get("PYTHONPATH", "")


def survives(mutant: Mutant, tests: list[str]) -> bool:
    """Whether all tests pass with the mistake in place, in a copy of the package."""
    if not tests:
        return True
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder, "likely"), copy_function=os.link, ignore=shutil.ignore_patterns("__py*"))
        file = Path(folder, "likely", mutant.file)
        file.unlink()  # the copy is a second name of the same file
        file.write_text(mutant.source())
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{_path()}", "OMP_NUM_THREADS": "1"}
        try:
            command = [*pytest_command(), "-x", "--no-header", *tests]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def drawn(seed: int, count: int) -> list[Mutant]:
    """As many mistakes of each part, as far as it has them."""
    found = {
        part: [one for path in sorted(PACKAGE.glob(pattern)) for one in mutants(part, path)]
        for part, pattern in PARTS.items()
    }
    for part, own in found.items():
        random.Random(f"{seed} {part}").shuffle(own)
    order = sorted((position, part) for part, own in found.items() for position in range(len(own)))
    return [found[part][position] for position, part in order[:count]]


def run(context: Context) -> Result:
    """Plant 400 mistakes, and count those that `make test` notices."""
    jobs = os.cpu_count() or 1
    chosen = drawn(context.seed, 16 if context.quick else MUTANTS)
    with tempfile.TemporaryDirectory() as folder:
        reached = reach(Path(os.environ.get("LIKELY_REACH", folder)), jobs, "tests")
    with ThreadPoolExecutor(jobs) as pool:
        alive = list(pool.map(lambda mutant: survives(mutant, reached.tests_of(mutant)), context.track(chosen)))
    frame = pd.DataFrame(
        [(one.part, not left) for one, left in zip(chosen, alive, strict=True)], columns=["part", "noticed"]
    )
    shown = frame.groupby("part")["noticed"].agg(["mean", "sum", "count"])
    left = [one for one, survived in zip(chosen, alive, strict=True) if survived]
    survivors = pd.DataFrame(
        [(one.file, one.line, one.before, one.after) for one in left], columns=["file", "line", "was", "is"]
    ).set_index("file")
    return result_of(
        [Bar("mistakes noticed by make test", float(frame["noticed"].mean()), "≥", SHARE)],
        (
            Table(shown, "Share of mistakes that a test notices, by part."),
            Table(survivors, "Mistakes that no test notices."),
        ),
    )
