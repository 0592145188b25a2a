"""Finds the columns of a table that add up, or multiply, to another in nearly all rows."""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from scipy.linalg import lstsq

from likely._typing import Array, Mask
from likely.auditing.columns.kinds import Columns
from likely.auditing.identities.identity import PRECISION, Identity

# Judged by the tables of tests/auditing/rows/test_sums.py: nine kinds of identities, and tables without any.
MAX_ROWS, MAX_COLUMNS = 5_000, 60  # in which identities are looked for: among very many columns, some add up by chance
MAX_PARTS = 12
_FEWEST = 30  # rows, at least, and this many more than columns
_VALUES = 4  # different values of a column that others add up to
_NEAR = 0.05  # of the spread of a column: what the others leave of it where they do not come to it
_MOSTLY = 0.7  # of the rows are as close to the plane through them
_HOLDS = 0.95  # of the rows for an identity to be one
_CANCEL = 0.9  # of the rows: two columns that cancel in so many are the identity, and the rest of it is none
_CLEAR = 10.0  # tolerances that a total spreads over at least
_STEPS = 20  # of reweighted least squares, towards the least absolute deviations
_BY_CHANCE = 8.0  # times the variance that a column without meaning explains
_NOTHING = 1e-5  # of the range of a total: what a part that is none adds
_NICE = np.unique([sign * value for sign in (-1, 1) for value in (*range(1, 13), *1 / np.arange(2, 13), 0.01, 100.0)])
_POWERS = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
_DIGITS = (1, 2, 3, 4, 6)  # of a constant, of which the first that hold are meant; that of a product has three at most
_DECIMALS = 6
_LARGEST = 1e100  # squares of larger numbers overflow


def find_identities(columns: Columns) -> list[Identity]:
    """Find columns of numbers that are sums or products of others in nearly all rows.

    Least absolute deviations pass through all rows that keep to an identity exactly, however far off the others are.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> rng = np.random.default_rng(0)
    >>> bill = pd.DataFrame({"net": rng.gamma(2, 50, 200).round(2), "tax": rng.gamma(2, 9, 200).round(2)})
    >>> bill["total"], bill["count"] = (bill["net"] + bill["tax"]).round(2), rng.integers(1, 9, 200)
    >>> bill.loc[7, "total"] *= 10
    >>> identity, = find_identities(read_columns(bill))
    >>> f"{identity.total} = {identity}", np.flatnonzero(identity.broken(bill)).tolist()
    ('total = net + tax', [7])
    """
    table = _sample(columns)
    units = {name: _unit(table[name].to_numpy()) for name in table}
    plain = Identity("", {}, 0.0, product=False, units=units, rounded=False)
    sums = _independent(_search(table, table, plain), list(table))
    positive = [name for name in table if (table[name] > 0).sum() >= _HOLDS * table[name].notna().sum()]
    logarithms = np.log(table[positive].where(table[positive] > 0))
    products = _independent(_search(table, logarithms, plain._replace(product=True)), list(table))
    summed = [set(identity.members) for identity in sums]
    return [*sums, *(identity for identity in products if set(identity.members) not in summed)]


def _sample(columns: Columns) -> pd.DataFrame:
    """Rows of the columns of numbers that vary; no columns if there are too few rows, or too many columns."""
    names = columns.named("number")
    names = names if len(names) <= 2 * MAX_COLUMNS else []
    table = columns.typed[names].iloc[:: max(1, -(-len(columns.typed) // MAX_ROWS))]
    table = table[np.isfinite(table).sum(axis=1) > table.shape[1] / 2].astype(np.float64)
    varied = table.loc[:, (table.nunique() > 1) & (table.abs().max() < _LARGEST)]
    width = varied.shape[1]
    return varied if width <= MAX_COLUMNS and len(varied) >= _FEWEST + width else varied.iloc[:, :0]


def _independent(identities: Iterable[Identity], names: list[str]) -> list[Identity]:
    """The shortest identities, of which no one follows from the others."""
    kept, rows = list[Identity](), list[Array]()
    for identity in sorted(identities, key=lambda identity: len(identity.members)):
        row = np.array([identity.parts.get(name, -1.0 if name == identity.total else 0.0) for name in names])
        if np.linalg.matrix_rank(np.array([*rows, row]), tol=1e-6) > len(rows):
            kept.append(identity)
            rows.append(row)
    return kept


def _search(table: pd.DataFrame, usable: pd.DataFrame, kind: Identity) -> Iterator[Identity]:
    """Identities of one kind, in the table as it is or in its logarithms."""
    filled = usable.fillna(usable.median())
    for name in usable:
        present = usable[name].notna().to_numpy()
        others, y = filled.drop(columns=name)[present], filled[name].to_numpy()[present]
        while len(others.columns) > 1 and table[name].nunique() >= _VALUES:
            close = _through_most(others.to_numpy(), y)
            chosen = {} if close is None else _pruned(others[close], y[close])
            identity = _named(table, name, chosen, kind)
            if identity is not None:
                yield identity
            if len(chosen) != 1:
                break
            others = others.drop(columns=list(chosen))  # a copy: is there an identity besides?


def _through_most(X: Array, y: Array) -> Mask | None:
    """The rows through which a plane of least absolute deviations passes; None if these are not most."""
    X = np.column_stack([np.ones(len(X)), (X - X.mean(0)) / np.maximum(X.std(0), 1e-300)])
    scale = _spread(y) or 1.0
    u = (y - np.median(y)) / scale
    off = np.ones(len(u))
    for step in range(_STEPS):
        weights = 1 / np.maximum(off, 10.0 ** (-1 - 8 * step / _STEPS))
        weighted = X * (weights / weights.max())[:, None]
        gram = weighted.T @ X
        off = np.abs(u - X @ np.linalg.solve(gram + 1e-13 * np.trace(gram) * np.eye(len(gram)), weighted.T @ u))
        if step > 2 and np.median(off) > _NEAR:
            return None
    close = off <= max(4 * np.median(off), 1e-6)
    return close if close.mean() >= _MOSTLY else None


def _pruned(others: pd.DataFrame, y: Array) -> dict[str, float]:
    """The fewest columns, with their coefficients, that leave no more of y than all do; the constant is not named."""
    A = np.column_stack([others.to_numpy(), np.ones(len(y))])
    A /= (size := np.maximum(np.abs(A).max(0), 1e-300))
    ranges = np.ptp(A[:, :-1], axis=0)
    varied = np.flatnonzero(ranges > 0).tolist()
    order = [varied[k] for k in np.argsort(np.abs(_fit(A, y, varied)[0][:-1]) * ranges[varied], kind="stable")]
    chosen = _without_needless(A, y, order)
    coefficients = zip(chosen, _fit(A, y, chosen)[0].tolist(), strict=False)
    least = _NOTHING * np.ptp(y)
    return {str(others.columns[j]): c / size[j] for j, c in coefficients if abs(c) * ranges[j] > least}


def _without_needless(A: Array, y: Array, columns: list[int]) -> list[int]:
    """The columns that are left when each in turn is dropped if that makes little difference."""
    kept, error = columns, _fit(A, y, columns)[1]
    for j in columns:
        rest = [other for other in kept if other != j]
        fewer = _fit(A, y, rest)[1] if rest else np.inf
        by_chance = error * np.sqrt(1 + _BY_CHANCE / max(len(y) - len(kept), 1))
        if fewer <= max(by_chance, 1e-10 * np.abs(y).max()):
            kept, error = rest, fewer
    return kept


def _fit(A: Array, y: Array, columns: list[int]) -> tuple[Array, float]:
    """Coefficients of some columns and the last, and the root mean square of what they leave."""
    part = A[:, [*columns, A.shape[1] - 1]]
    beta = lstsq(part, y, cond=1e-13, lapack_driver="gelsy", check_finite=False)[0]
    return beta, float(np.sqrt(np.mean(np.square(y - part @ beta))))


def _named(table: pd.DataFrame, name: str, chosen: dict[str, float], kind: Identity) -> Identity | None:
    """The identity with round coefficients, solved for the column that is the total, if it holds with these."""
    if not 2 <= len(chosen) <= MAX_PARTS:
        return None
    terms = {name: -1.0, **chosen}  # that come to a constant
    terms = {column: terms[column] for column in table if column in terms}
    total = _total(terms)
    parts = {part: -c / terms[total] for part, c in terms.items() if part != total}
    numbers = _POWERS if kind.product else _NICE
    nice = {part: float(numbers[np.abs(numbers - c).argmin()]) for part, c in parts.items()}
    if any(abs(c - parts[part]) > (0.05 if kind.product else 0.02 * abs(c)) for part, c in nice.items()):
        return None
    identity = kind._replace(total=total, parts=nice, constant=float(kind.product))
    constants = _constants(identity, table)
    candidates = (identity._replace(constant=c, rounded=rounded) for rounded in (False, True) for c in constants)
    return next((settled for candidate in candidates if (settled := _settled(candidate, table)) is not None), None)


def _constants(identity: Identity, table: pd.DataFrame) -> list[float]:
    """The constants that an identity may have, the roundest first."""
    with np.errstate(all="ignore"):
        given, expected = identity.given(table), identity.expected(table)
        constants = given / expected if identity.product else given - expected
    constants = constants[np.isfinite(constants)]
    if not len(constants):
        return []
    digits = _DIGITS[:3] if identity.product else _DIGITS
    return [*([] if identity.product else [0.0]), *(float(f"{np.median(constants):.{some}g}") for some in digits)]


def _settled(identity: Identity, table: pd.DataFrame) -> Identity | None:
    """The identity if it holds in nearly all rows, and could not by chance."""
    known = identity.known(table)
    given, tolerance = identity.given(table)[known], identity.tolerance(table)[known]
    kept = np.abs(identity.off(table)[known]) <= tolerance
    if known.sum() < _FEWEST or kept.mean() < _HOLDS or _cancels(identity, table):
        return None
    spread = _spread(given)
    if spread < _CLEAR * np.median(tolerance):
        return None
    identity = identity._replace(spread=spread)
    # All parts on one side of a constant read better as such: a + b + c = 100.
    if not identity.product and identity.constant and all(c == -1 for c in identity.parts.values()):
        parts = [name for name in table.columns if name in identity.members]
        return identity._replace(total="", parts=dict.fromkeys(parts, 1.0))
    return identity


def _cancels(identity: Identity, table: pd.DataFrame) -> bool:
    """Whether two columns that vary are the same in nearly all rows, which leaves nothing for the others to add."""
    if identity.product:
        return False
    terms = {**identity.parts, identity.total: -1.0}
    values = {name: c * table[name].to_numpy(np.float64) for name, c in terms.items()}
    varied = [name for name, column in values.items() if _mode_share(column) < _CANCEL]
    pairs = ((first, second) for i, first in enumerate(varied) for second in varied[:i])
    return any(_mode_share(values[first] + values[second]) >= _CANCEL for first, second in pairs)


def _mode_share(values: Array) -> float:
    """The share of the rows that have the most frequent value."""
    seen = pd.Series(values[np.isfinite(values)].round(_DECIMALS))
    return float(seen.value_counts(normalize=True).max()) if len(seen) else 1.0


def _total(terms: dict[str, float]) -> str:
    """Of columns whose weighted sum is constant, the one that the others come to: alone on its side, if one is."""
    for sign in (1, -1):
        alone = [name for name, c in terms.items() if c * sign > 0]
        if len(alone) == 1:
            return alone[0]
    units = [name for name, c in terms.items() if abs(abs(c) - 1) < 1e-3]
    return (units or list(terms))[0]


def _spread(values: Array) -> float:
    """The median deviation from the median, or the standard deviation where most values are the same."""
    return float(np.median(np.abs(values - np.median(values)))) or float(np.std(values))


def _unit(values: Array) -> float:
    """The last decimal of numbers, such as 0.01; 0 if they have more than six."""
    seen = values[np.isfinite(values)]
    for decimals in range(_DECIMALS + 1):
        scaled = seen * 10.0**decimals
        if np.mean(np.abs(scaled - np.round(scaled)) < np.maximum(1e-6, PRECISION * np.abs(scaled))) > 0.99:
            return 10.0**-decimals
    return 0.0
