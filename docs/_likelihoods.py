"""The reference of the likelihoods, one section each, from the registry, so that a new one appears by itself."""

import inspect
import sys
from types import FunctionType

from likely.likelihoods import LIKELIHOODS, Likelihood

WORDS = {"softmax": "classes", "ordinal": "ordered classes", "von_mises": "angles in radians"}
LEAST = {"ShiftedSoftplus": "above {floor:.3g}", "Interval": "from {low:g} to {high:g}", "Exp": "above 0"}
# The same folder from docs/_generated, where this is written, and from docs/api, where it is shown.
TABLE = ".. autosummary::\n   :toctree: ../api/generated\n   :nosignatures:\n\n"
LOSSES = """.. currentmodule:: likely

.. list-table::
   :header-rows: 1

   * - loss
     - likelihood
     - targets
"""


def page() -> str:
    """The whole page, in MyST."""
    rows = "".join(
        f"| [`{name}`](#{name.replace('_', '-')}) | `{record.loss.__name__}` | {targets(record)} | "
        f"{', '.join(f'`{slot}`' for slot in record.loss.slots) or '–'} |\n"
        for name, record in LIKELIHOODS.items()
    )
    head = "| name | loss | targets | parameters that learn |\n|---|---|---|---|\n"
    return head + rows + "\n" + "\n".join(section(record) for record in LIKELIHOODS.values())


def losses() -> str:
    """A table of all losses, each with a link to its page, its first sentence, and its targets."""
    rows = "".join(
        f"   * - :class:`~likely.{record.loss.__name__}`\n     - {inspect.getdoc(record.loss).splitlines()[0]}\n"
        f"     - {targets(record)}\n"
        for record in LIKELIHOODS.values()
    )
    return f"```{{eval-rst}}\n{LOSSES}{rows}```\n"


def targets(record: Likelihood) -> str:
    """Where targets lie, in words."""
    if record.name in WORDS:
        return WORDS[record.name]
    kind = type(record.support).__name__.lstrip("_")
    low, high = (getattr(record.support, f"{end}_bound", None) for end in ("lower", "upper"))
    if kind == "Real":
        return "real numbers"
    if kind.startswith("Integer"):
        return "counts" if high is None else f"whole numbers from {low} to {high}"
    return f"above {low:g}" if high is None else f"from {low:.4g} to {high:.4g}"


def section(record: Likelihood) -> str:
    """One likelihood: its parameters, then a table of its loss, function and distribution."""
    home = sys.modules[record.nll.__module__]
    others = [other for other in LIKELIHOODS.values() if other is not record]
    taken = {thing.__name__ for other in others for thing in (other.nll, other.loss, other.distribution)}
    parts = []
    for name in home.__all__:
        if name in taken:
            continue
        if isinstance(getattr(home, name), FunctionType):
            parts.append(f"likely.functional.{name}")
        elif name.endswith("Loss"):
            parts.insert(0, f"likely.{name}")
        else:
            parts.append(f"likely.distributions.{name}")
    title = inspect.getdoc(home).splitlines()[0]
    slots = "".join(
        f"- `{name}`: {bounds(slot.constraint)}; starts {'from the first batch' if slot.start else f'at {slot.init}'}\n"
        for name, slot in record.loss.slots.items()
    )
    listed = f"Parameters that learn:\n\n{slots}\n" if slots else ""
    body = TABLE + "".join(f"   ~{name}\n" for name in parts)
    return (
        f"({record.name.replace('_', '-')})=\n\n## `{record.name}`\n\n{title}\n\n{listed}```{{eval-rst}}\n{body}```\n"
    )


def bounds(constraint: object) -> str:
    """Where a parameter may go."""
    words = LEAST.get(type(constraint).__name__)
    return words.format(**vars(constraint)) if words else repr(constraint)
