"""Every parameter of a loss and of a functional form is described by itself."""

import inspect
import re

import pytest

import likely
from likely import functional, losses
from likely.integrations.monitor import LikelihoodMonitor

PUBLIC = [
    *((f"functional.{name}", getattr(functional, name)) for name in functional.__all__),
    *((f"losses.{name}", getattr(losses, name)) for name in losses.__all__),
    *(
        (f"LikelihoodLoss.{name}", getattr(likely.LikelihoodLoss, name))
        for name in ("forward", "excess", "distribution")
    ),
    ("TokenTemperature.forward", likely.TokenTemperature.forward),
    ("LikelihoodMonitor", LikelihoodMonitor),
]


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_every_parameter_has_its_line(name, thing):
    text = inspect.getdoc(thing)
    described = re.findall(r"^ {4}(\**\w+): \S", text[text.index("Args:") :], re.MULTILINE)
    parameters = inspect.signature(thing).parameters.values()
    starred = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    asked = [starred.get(p.kind, "") + p.name for p in parameters if p.name != "self"]
    assert [p for p in asked if p not in described] == []
    if inspect.isfunction(thing):
        assert "Returns:" in text
