"""The classes that a file may name. Reading a file creates objects of no other class."""

from __future__ import annotations

from likely.tabular._columns import Columns, Dates, Levels, Numbers
from likely.tabular._council import Council
from likely.tabular._counts import Counts, Spread
from likely.tabular._links import Link
from likely.tabular._noise import Noise, Shape
from likely.tabular._pool import ClassPool, Pool
from likely.tabular._real import Real
from likely.tabular._saving._boosting import PlainBoosting
from likely.tabular._saving._forest import PlainForest
from likely.tabular._saving._frame import PlainFrame
from likely.tabular._views import Encoding, Indicator, Number, Views
from likely.tabular.members._task import Member
from likely.tabular.members.boosting import Boosted, Flat, Histogram, Native
from likely.tabular.members.kernel import Smooth
from likely.tabular.members.linear import Line
from likely.tabular.members.network import Network
from likely.tabular.members.trees import Forest

_CLASSES: tuple[type, ...] = (
    Columns, Numbers, Dates, Levels,
    Views, Number, Indicator, Encoding,
    Council, Member, Pool, ClassPool,
    Real, Link, Noise, Shape, Counts, Spread,
    Line, Smooth, Network,
    Boosted, Native, Flat, Histogram, PlainBoosting, Forest, PlainForest,
    PlainFrame,
)  # fmt: skip

KINDS: dict[str, type] = {kind.__name__: kind for kind in _CLASSES}
