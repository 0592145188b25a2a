"""The reference is complete: each parameter described by itself, what is returned, an example, and a page per name."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import _likelihoods
import _reference
import _which_loss

import likely
from likely import integrations
from likely.likelihoods import LIKELIHOODS
from pairwise import together

DOCS = Path(__file__).parents[1] / "docs"
MODULES = [
    "likely",
    "likely.indexed",
    *(f"likely.{name}" for name in likely.__all__ if inspect.ismodule(getattr(likely, name))),
    *(f"likely.integrations.{m.name}" for m in pkgutil.iter_modules(integrations.__path__) if m.name[0] != "_"),
]

INNER = ("likely.likelihoods",)  # what losses are made of: an example is that of the loss


def exported(module: ModuleType) -> dict[str, Any]:
    """Our classes and functions among a module's public names."""
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    things = {name: getattr(module, name) for name in names}
    return {
        name: thing
        for name, thing in things.items()
        if callable(thing) and getattr(thing, "__module__", "").startswith("likely")
    }


def methods(thing: Any) -> dict[str, Callable[..., Any]]:
    """The public methods of a class that are ours, inherited ones included."""
    if not inspect.isclass(thing):
        return {}
    routines = inspect.getmembers(thing, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
    return {name: f for name, f in routines if name[0] != "_" and f.__module__.startswith("likely")}


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring in Google's style, by name."""
    parts = re.split(
        r"^(Args|Returns|Yields|Raises|Attributes|Examples?|Notes?|See [Aa]lso|References):\s*$", text, flags=re.M
    )
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def is_record(thing: Any) -> bool:
    """Whether it is a dataclass or a named tuple, whose parameters are its attributes."""
    return inspect.isclass(thing) and (is_dataclass(thing) or hasattr(thing, "_fields"))


def problems(name: str, thing: Any) -> Iterator[str]:
    """What the docstring of a callable lacks."""
    signature, text = inspect.signature(thing), sections(inspect.getdoc(thing) or "")
    entries = text.get("Args", "") + (text.get("Attributes", "") if is_record(thing) else "")
    described = re.findall(r"^ {4}\**(\w+)(?: \(.*?\))?:", entries, re.MULTILINE)
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "cls") and parameter.name not in described:
            yield f"{name}: no entry for {parameter.name}"
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name == "options":
            yield f"{name}: **options instead of names"
    returned = signature.return_annotation not in (None, "None", signature.empty) and not inspect.isclass(thing)
    if returned and not {"Returns", "Yields"} & text.keys():
        yield f"{name}: no Returns"
    if has_colon(text.get("Returns", "").strip().partition("\n")[0]):
        yield f"{name}: Returns would be read as a type, up to the colon of its first line"


def has_colon(line: str) -> bool:
    """Whether napoleon would take the words before a colon for a type: one outside of code and references."""
    return ":" in re.sub(r"(:\w+)*:?`[^`]*`|``.*?``|::", "", line)


def properties(thing: Any) -> dict[str, property]:
    """The public properties of a class that are ours, inherited ones included."""
    found = inspect.getmembers(thing, lambda member: isinstance(member, property)) if inspect.isclass(thing) else []
    return {name: p for name, p in found if name[0] != "_" and p.fget and p.fget.__module__.startswith("likely")}


@together("module", MODULES)
def test_docstrings_are_complete(module: str) -> None:
    listed = []
    for name, thing in exported(importlib.import_module(module)).items():
        listed += problems(name, thing)
        shown = ">>> " in (inspect.getdoc(thing) or "") or module in INNER
        listed += [] if shown else [f"{name}: no example"]
        for method, function in methods(thing).items():
            listed += problems(f"{name}.{method}", function)
        for attribute, p in properties(thing).items():
            colon = has_colon((inspect.getdoc(p) or "").partition("\n")[0])
            listed += [f"{name}.{attribute}: would be read as a type, up to its colon"] if colon else []
    assert listed == []


def test_every_name_has_a_page(tmp_path: Path) -> None:
    likelihoods = tmp_path / "likelihoods.md"
    likelihoods.write_text(_likelihoods.page(), encoding="utf-8")
    names = _reference.names([*DOCS.glob("api/*.md"), likelihoods])
    assert len({name.lower() for name in names}) == len(names)  # a page is a file, also where case does not count
    shown = {id(_reference.import_by_name(name)[1]) for name in names}
    public = {
        f"{module}.{name}": thing
        for module in MODULES
        for name, thing in exported(importlib.import_module(module)).items()
    }
    hidden = tuple(f"{module}." for module in INNER)  # their pages name what is for users
    assert [name for name, thing in public.items() if id(thing) not in shown and not name.startswith(hidden)] == []


def test_every_loss_is_listed_and_chosen() -> None:
    losses = {record.loss.__name__ for record in LIKELIHOODS.values()}
    table = _likelihoods.losses()
    assert {name for name in losses if table.count(f":class:`~likely.{name}`\n") != 1} == set()
    chosen = [leaf for _, _, leaf in _which_loss.TARGET if leaf]
    assert losses | {"MultiTaskLoss", "TokenTemperature"} == set(chosen)
    assert len(chosen) == len(set(chosen))
    guide = DOCS.joinpath("which-loss.md").read_text(encoding="utf-8")
    assert [name for name in losses if f"| `{name}` |" not in guide] == []
