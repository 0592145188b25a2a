"""What holds for the package as a whole: what importing it costs, its version, its examples, its text."""

import doctest
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from torch import nn
from torch.distributions import Distribution

import likely
from likely.likelihoods import exported
from pairwise import together

ROOT = Path(__file__).parents[1]
MODULES = [
    "likely",
    "likely.auditing",
    "likely.constraints",
    "likely.distributions",
    "likely.functional",
    "likely.integrations.export",
    "likely.integrations.lightning",
    "likely.integrations.mapie",
    "likely.integrations.torchmetrics",
    "likely.integrations.transformers",
    "likely.calibration",
    "likely.linear",
    "likely.metrics",
    "likely.tabular",
    "likely.plots",
    "likely.losses",
    "likely.optim",
    "likely.outliers",
    "likely.parameters",
    "likely.priors",
    "likely.row_store",
]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def public_objects() -> dict[str, object]:
    """Every public class and function under its full name, but for integrations whose library is not installed."""
    modules = []
    for name in MODULES:
        try:
            modules.append(importlib.import_module(name))
        except ModuleNotFoundError as missing:
            if not name.startswith("likely.integrations.") or str(missing.name).startswith("likely"):
                raise
    named = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    return {name: thing for name, thing in named.items() if inspect.isclass(thing) or inspect.isroutine(thing)}


def test_version_is_the_installed_one() -> None:
    assert likely.__version__ == importlib.metadata.version("likely")


def test_import_loads_no_extra() -> None:
    loaded = set(python("import likely, sys; print(*sys.modules)").split())
    assert not loaded & {"matplotlib", "pandas", "triton", "typer", "rich", "jinja2"}
    # torch's compiler alone takes as long to import as the rest of torch.
    assert "torch._dynamo" not in loaded


def test_import_takes_no_longer_than_torch_and_scikit_learn() -> None:
    def seconds(statement: str) -> float:
        # Of processor time: other tests run beside this one.
        code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
        return float(python(code))

    assert seconds("import likely") <= 1.15 * seconds("import torch, sklearn") + 0.2


@together("name", public_objects())
def test_every_public_class_and_function_has_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(public_objects()[name].__doc__ or "")


@together(
    ("module", "kind", "others"),
    [
        (likely.losses, nn.Module, {"LikelihoodLoss", "Slot", "from_torch"}),
        (likely.distributions, Distribution, set()),
        (likely.functional, FunctionType, set()),
    ],
)
def test_losses_distributions_and_functions_are_each_listed_in_their_own_module(
    module: ModuleType, kind: type, others: set[str]
) -> None:
    names = exported(kind)
    assert module.__all__ == sorted({*names, *others})
    for name in names:
        thing = getattr(module, name)
        assert isinstance(thing, FunctionType) if kind is FunctionType else issubclass(thing, kind), name
    assert not {name for name in names if name.startswith("_")}


def test_no_tracked_file_names_a_machine() -> None:
    # A character class keeps each pattern from matching its own line here.
    patterns = [
        r"(?<![\w.])/[w]ork/",
        r"(?<![\w.])/[r]oot/",
        r"(?<![\w.])/[h]ome/\w",
        r"(?<![\w.])/[U]sers/\w",
        r"(?<![\w.])/[o]pt/(pypi|wheels)",
        r"\b1(0|72|92)\.\d+\.\d+\.\d+[:]\d+",
    ]
    forbidden = re.compile("|".join(patterns))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    texts = {name: (ROOT / name).read_text(errors="ignore") for name in listed.stdout.split("\0") if name}
    named = {name: match.group() for name, text in texts.items() if (match := forbidden.search(text))}
    assert named == {}
    shared = {name for name, text in texts.items() if "../" + "shared" in text}
    assert shared <= {"Makefile", ".ci/run"}
