"""Every parameter of the public names is described by itself: those of the reference, and their methods."""

import inspect
import re
from pathlib import Path

from _reference import names
from sphinx.ext.autosummary import import_by_name

from likely import functional, losses
from pairwise import together

PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
NAMES = sorted(
    {
        *names(PAGES),
        *(f"likely.functional.{name}" for name in functional.__all__),
        *(f"likely.losses.{name}" for name in losses.__all__),
    }
)


def undescribed(thing, text):
    """The parameters without a line, and the lines without a parameter."""
    section = re.search(r"^(Args|Attributes):\n((?: .*\n|\n)*)", f"{text}\n", re.MULTILINE)
    described = set(re.findall(r"^ {4}\**(\w+): \S", section[2], re.MULTILINE) if section else [])
    parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]
    passed_on = {p.name for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    asked = {p.name for p in parameters} - passed_on
    properties = described - asked if section and section[1] == "Attributes" else set()
    return asked ^ (described - passed_on - properties)


def is_ours(method):
    return inspect.isfunction(method) and method.__module__.startswith("likely.")


@together("name", NAMES)
def test_every_parameter_has_its_line(name):
    thing = import_by_name(name)[1]
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    if is_ours(thing) or (inspect.isclass(thing) and is_ours(thing.__init__)):
        assert undescribed(thing, text) == set()
    if inspect.isfunction(thing):
        assert "Returns:" in text or inspect.signature(thing).return_annotation in (None, "None")


@together("name", [name for name in NAMES if inspect.isclass(import_by_name(name)[1])])
def test_so_has_every_parameter_of_its_methods(name):
    thing = import_by_name(name)[1]
    for method in {m for m in dir(thing) if not m.startswith("_")}:
        text = inspect.getdoc(getattr(thing, method))
        # A sentence is enough where it says all.
        if is_ours(getattr(thing, method)) and "\n" in text:
            assert (method, undescribed(getattr(thing, method), text)) == (method, set())
