"""Find what is wrong with a data set: which rows, labels and targets to distrust, and why.

>>> import likely
>>> report = likely.audit({"x": range(30), "y": [0.0] * 29 + [9.0]})
>>> [suspect.row for suspect in report.suspects]
[29]

The package is ``auditing`` because ``likely.audit`` is the function: a module of that name would take its place as soon
as anything imported it.
"""

from importlib.util import find_spec

_missing = [name for name in ("pandas", "jinja2") if find_spec(name) is None]
if _missing:
    raise ImportError(f"likely.audit needs {', '.join(_missing)}: pip install 'likely[cli]'")

from likely.auditing.pipeline import audit  # noqa: E402 (what they need is told first)
from likely.auditing.results.audit import Audit  # noqa: E402
from likely.auditing.results.finding import Finding, Reason, Suspect  # noqa: E402

__all__ = ["Audit", "Finding", "Reason", "Suspect", "audit"]
