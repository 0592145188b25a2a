"""The reference: one page per public name, as the tables of docs/api name them, written by sphinx.ext.autosummary.

`pages` holds what the template (_templates/autosummary/base.rst) adds to a docstring, `skip` leaves out the members
that scikit-learn and torch document themselves.
"""

import inspect
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autosummary import import_by_name
from sphinx.ext.autosummary.generate import find_autosummary_in_files

# The page of the guide that treats a name; the longest prefix decides.
GUIDE = {
    "likely": "which-loss",
    "likely.Data": "grid",
    "likely.Fixed": "grid",
    "likely.Global": "grid",
    "likely.IndexedDataset": "start",
    "likely.Predicted": "grid",
    "likely.Supervised": "start",
    "likely.TokenTemperature": "tutorials/token-temperatures",
    "likely.audit": "audit",
    "likely.auditing": "audit",
    "likely.calibration": "calibration",
    "likely.calibration.load": "calibrated-models",
    "likely.calibration.save": "calibrated-models",
    "likely.clip_gradients": "start",
    "likely.constraints": "howto/extend",
    "likely.distributions": "which-loss",
    "likely.from_torch": "torch-losses",
    "likely.functional": "which-loss",
    "likely.functional.linear_softmax_nll": "kernels",
    "likely.functional.robust": "numerics",
    "likely.integrations": "integrations",
    "likely.likelihoods": "howto/likelihood",
    "likely.linear": "linear",
    "likely.losses.Slot": "howto/likelihood",
    "likely.metrics": "metrics",
    "likely.outliers": "outliers",
    "likely.param_groups": "start",
    "likely.parameters": "grid",
    "likely.plots": "gallery/index",
    "likely.priors": "priors",
    "likely.row_store": "row-store",
    "likely.tabular": "tabular",
}
OWNERS = {"sklearn": "scikit-learn", "torchmetrics": "torchmetrics"}
# Methods that other code calls, and those that scikit-learn adds to whatever has arguments of its own.
INTERNAL = ("extra_repr", "nll", "get_metadata_routing")

# What the annotation NDArray[np.float64] is to Python, and defaults that are functions and classes: with one of them
# Sphinx takes no part of the signature for Python.
ARRAY = re.compile(r"(~?numpy\.)ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], ~?numpy\.dtype\[[^\]]*\]\]")
DEFAULT = re.compile(r"<function <lambda>.*?>|<factory>")
CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")

BACKLINK = re.compile(r"(generated/([\w.]+\.(\w+))\.html#)(?!\2\b)[\w.]*?\b\3\b")


def names(files: list[Path]) -> list[str]:
    """What the tables of these files list, by its public name."""
    return [import_by_name(entry.name)[0] for entry in find_autosummary_in_files(files)]


def pages(files: list[Path]) -> dict[str, dict[str, str]]:
    """For each name: its page of the guide, a sentence on inherited methods, and the names that examples use."""
    return {name: _page(name, import_by_name(name)[1]) for name in names(files)}


def _page(name: str, thing: Any) -> dict[str, str]:
    prefix = max((prefix for prefix in GUIDE if f"{name}.".startswith((f"{prefix}.", f"{prefix}_"))), key=len)
    # sphinx-gallery knows a function of a likelihood by the folder it is defined in.
    backreferences = f"{name} likely.likelihoods.{thing.__name__}"
    return {"guide": GUIDE[prefix], "foreign": _foreign(thing), "backreferences": backreferences}


def _foreign(thing: Any) -> str:
    """The methods that a class has from other libraries, in a sentence: they are documented there."""
    if not inspect.isclass(thing):
        return ""
    methods: dict[str, list[str]] = {}
    for name, method in inspect.getmembers(thing, inspect.isroutine):
        owner = OWNERS.get((getattr(method, "__module__", None) or "").partition(".")[0])
        if owner and not _internal(name):
            methods.setdefault(owner, []).append(f"``{name}``")
    # A sentence of the names where they are few, of the class they come from where they are many.
    parts = [f"Inherited from {owner}: {', '.join(listed)}." for owner, listed in methods.items() if len(listed) < 12]
    modules = [base for base in thing.__mro__ if base.__module__ == "torch.nn.modules.module"]
    return " ".join(parts + ["Inherited from ``torch.nn.Module``: all its methods." for _ in modules])


def _internal(name: str) -> bool:
    return name.startswith("_") or name.endswith("_request") or name in INTERNAL


def skip(app: Sphinx, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Whether autodoc leaves a member out: it is not ours, internal, or listed under the class's attributes."""
    function = thing.fget if isinstance(thing, property) else inspect.unwrap(thing) if callable(thing) else thing
    home = getattr(function, "__module__", None) or "likely"
    if _internal(name) or not home.startswith("likely"):
        return True
    page = app.env.docname.rpartition("/")[2]  # named for the class it describes; empty while the pages are written
    documented = inspect.getdoc(import_by_name(page)[1]) if page.startswith("likely.") else None
    attributes = (documented or "").partition("\nAttributes:\n")[2]
    return True if re.search(rf"^    {name}( \(.*\))?:", attributes, re.MULTILINE) else None


def shorten_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """The signature with an array as ``ndarray``, a default that is a class by its name, and a function as dots."""
    brief = CLASS.sub(r"\1", DEFAULT.sub("...", _brief(signature))) if signature else signature
    return brief, _brief(returned) if returned else returned


def shorten_types(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The types of attributes, which napoleon takes from annotations, in the same words."""
    lines[:] = [_brief(line) for line in lines]


def _brief(text: str) -> str:
    return ARRAY.sub(r"\1ndarray", text)


def mend_backlinks(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Lead the source pages' links back to the public names: viewcode takes one module for all that a file defines."""
    if pagename.startswith("_modules/"):
        context["body"] = BACKLINK.sub(r"\1\2", context["body"])
