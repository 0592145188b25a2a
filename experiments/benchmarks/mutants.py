"""Would a test notice? Small mistakes are planted in the code, one at a time, and the tests that pass there are run."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeGuard

import pandas as pd

from experiments.benchmarks._bars import result_of
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "likely"
# What must not change unnoticed, as patterns in the package.
PARTS: dict[str, str] = {
    "likelihoods": "likelihoods/*.py",
    "parameters": "parameters/*.py",
    "optim": "optim.py",
    "solvers": "_solvers/*.py",
    "calibration": "calibration/**/*.py",
    "thresholds": "outliers/*threshold*.py",
    "pooling": "tabular/_stack.py",
    "verdicts": "auditing/**/*verdict*.py",
}
MUTANTS, SHARE = 400, 0.85
PER_FUNCTION, SECONDS, LIMIT = 6, 60.0, 180  # tests of one function, of their time in all; until a test hangs
# Old and new libraries may warn.
PYTEST_OPTIONS = ["-q", "--tb=no", "-o", "filterwarnings=ignore", "--continue-on-collection-errors"]
UNHARMED = -1  # the node of a file without a mistake
ROUNDING = 1e-8  # smaller numbers only keep rounding errors and quotients in bounds: twice as much is as small


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

    @property
    def control(self) -> Mutant:
        """The same file without the mistake: a test that fails there fails of itself."""
        return self._replace(after=self.before, node=UNHARMED)

    def lines(self) -> set[int]:
        """Where the mistake is felt: its own line, the lines that use a constant, the body of a default's function.

        What a module or a class says of itself runs when it is imported, by whichever test happens to be the first.
        """
        nodes = list(ast.walk(ast.parse(self.path.read_text())))
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.lineno <= self.line < node.body[0].lineno:
                return set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
        outside = [child for node in nodes if isinstance(node, ast.Module | ast.ClassDef) for child in node.body]
        for node in outside:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= self.line <= (node.end_lineno or 0):
                names = {inner.id for inner in ast.walk(node) if _is_name(inner, ast.Store)}
                used = (inner for inner in nodes if _is_name(inner, ast.Load) and inner.id in names)
                asked = (inner for inner in nodes if isinstance(inner, ast.Attribute) and inner.attr in names)
                return {inner.lineno for inner in (*used, *asked)} or {self.line}
        return {self.line}

    def source(self) -> str:
        """The file with the mistake in it."""
        tree = ast.parse(self.path.read_text())
        if self.node != UNHARMED:
            _mistake(list(ast.walk(tree))[self.node])
        return ast.unparse(tree)


def _is_name(node: ast.AST, context: type[ast.expr_context]) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


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
    """What changes no result: annotations, decorators, the names of types, what is said in errors, warnings and names.

    Decorators say how a function is called, or that an instance is frozen, not what is computed.
    """
    match node:
        case ast.arg() | ast.AnnAssign() if node.annotation:
            return [node.annotation]
        case ast.FunctionDef(name="__repr__"):
            return [node]
        case ast.FunctionDef():
            return [*node.decorator_list, *([node.returns] if node.returns else [])]
        case ast.ClassDef():
            return list(node.decorator_list)
        case ast.Raise() | ast.JoinedStr() | ast.Assert():
            return [node]
        case ast.Call(func=ast.Name(id="TypeVar" | "Literal" | "cast")):
            return [node]
        case ast.Call(func=ast.Attribute(attr="warn")):
            return [node]
        case ast.Constant(value=float() as value) if 0 < abs(value) < ROUNDING:
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
        """The quickest tests that could notice, some of each function, of at most a minute.

        First those that pass where the mistake is felt (through the file, if none does), then others of the same
        files, which look at the fits that the first of them has made.
        """
        direct = {test for line in mutant.lines() for test in self.lines.get((mutant.file, line), ())}
        direct = direct or self.files.get(mutant.file, set())
        homes = {_home(test) for test in direct}
        chosen, spent, times = [], 0.0, Counter[str]()
        tests = [test for test in self.seconds if _home(test) in homes]
        for test in sorted(tests, key=lambda name: (name not in direct, self.seconds[name], name)):
            function = test.split("[")[0]
            times[function] += 1
            if times[function] <= PER_FUNCTION and spent < SECONDS:
                chosen.append(test)
                spent += self.seconds[test]
        return chosen


def _home(test: str) -> str:
    return test.split("::")[0]


def reach(folder: Path, jobs: int, *tests: str) -> Reached:
    """Run the tests once, those that are not heavy, and see where they pass."""
    if not any(folder.glob("*.json")):
        command = [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, "-n", str(jobs), "--dist", "worksteal"]
        environment = {**os.environ, "LIKELY_REACH": str(folder), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}:{_path()}"}
        command += ["-m", "not heavy", "-p", "experiments.benchmarks._reach", "-p", "no:cacheprovider", *tests]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return Reached.read(folder)


def _path() -> str:
    return os.environ.get("PYTHONPATH", "")


class Forks:
    """A process that runs tests in forks of itself, see `_forks`; one at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("_forks.py"))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)

    def survives(self, mutant: Mutant, tests: list[str]) -> bool:
        """Whether no test fails with the mistake in place that passes without it, both times in a copy."""
        while tests and (failed := self._failed(mutant, tests)):
            if not self._failed(mutant.control, failed):
                return False
            tests = [test for test in tests if test not in failed]
        return True

    def _failed(self, mutant: Mutant, tests: list[str]) -> list[str]:
        """The first test that fails in a copy of the package with this file; the first of all where none could run."""
        with tempfile.TemporaryDirectory() as folder:
            _copy_package(Path(folder, "likely"))
            file = Path(folder, "likely", mutant.file)
            file.unlink()  # a link to the true one
            file.write_text(mutant.source())
            arguments = [*PYTEST_OPTIONS, "-x", "--no-header", "-o", f"cache_dir={folder}/cache", *tests]
            request = {"folder": folder, "arguments": arguments, "seconds": LIMIT}
            assert self.process.stdin
            assert self.process.stdout
            print(json.dumps(request), file=self.process.stdin, flush=True)
            if int(self.process.stdout.readline()) == 0:
                return []
            told = Path(folder, "cache", "v", "cache", "lastfailed")
            failed = set(json.loads(told.read_text())) & set(tests) if told.exists() else set()
            return sorted(failed) or tests[:1]

    def close(self) -> None:
        """End the process."""
        with self.process:  # which closes its pipes
            pass


def _copy_package(copy_of: Path) -> None:
    """Folders of links to the files, and to what Python has compiled of them."""
    for folder, _, names in os.walk(PACKAGE):
        if not folder.endswith("__pycache__"):
            here = copy_of / Path(folder).relative_to(PACKAGE)
            here.mkdir()
            for name in [*names, *(["__pycache__"] if Path(folder, "__pycache__").is_dir() else [])]:
                (here / name).symlink_to(Path(folder, name))


def drawn(seed: int, count: int) -> list[Mutant]:
    """As many mistakes of each part, as far as it has them."""
    found = {}
    for part, pattern in PARTS.items():
        found[part] = [one for path in sorted(PACKAGE.glob(pattern)) for one in mutants(part, path)]
    if empty := [part for part, own in found.items() if not own]:
        raise ValueError(f"no file of the package is {', '.join(PARTS[part] for part in empty)}: change PARTS")
    for part, own in found.items():
        random.Random(f"{seed} {part}").shuffle(own)
    order = sorted((position, part) for part, own in found.items() for position in range(len(own)))
    return [found[part][position] for position, part in order[:count]]


def run(context: Context) -> Result:
    """Plant 400 mistakes, and count those that `make test` notices.

    What is known of a mistake is kept, so that an interrupted run goes on where it was.
    """
    jobs = os.cpu_count() or 1
    chosen = drawn(context.seed, 16 if context.quick else MUTANTS)
    with contextlib.ExitStack() as stack:
        folder = context.units / "reach" if context.units else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reached = reach(folder, jobs, "tests")
    if not reached.seconds:
        raise RuntimeError("no test passes, so that none could notice a mistake")

    idle: queue.SimpleQueue[Forks] = queue.SimpleQueue()

    def alive(one: Mutant) -> bool:
        forks = idle.get()
        try:
            unit = (one.file, one.line, one.before, one.after, one.node)
            return context.once(unit, forks.survives, one, reached.tests_of(one))
        finally:
            idle.put(forks)

    with ThreadPoolExecutor(jobs) as pool, contextlib.ExitStack() as stack:
        for _ in range(jobs):
            idle.put(stack.enter_context(contextlib.closing(Forks())))
        left = dict(zip(chosen, pool.map(alive, context.track(chosen)), strict=True))
    shutil.rmtree(folder, ignore_errors=True)  # other code is reached by other tests
    frame = pd.DataFrame([(one.part, not survived) for one, survived in left.items()], columns=["part", "noticed"])
    shown = frame.groupby("part")["noticed"].agg(["mean", "sum", "count"])
    survivors = pd.DataFrame(
        [(one.file, one.line, one.before, one.after) for one, survived in left.items() if survived],
        columns=["file", "line", "was", "is"],
    ).set_index("file")
    return result_of(
        [Bar("mistakes noticed by make test", float(frame["noticed"].mean()), "≥", SHARE)],
        (
            Table(shown, "Share of mistakes that a test notices, by part."),
            Table(survivors, "Mistakes that no test notices."),
        ),
    )
