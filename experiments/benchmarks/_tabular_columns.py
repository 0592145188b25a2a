"""The columns of a frame as each library needs them, with the levels and medians of the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

Array = NDArray[np.float64]


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert dates to days and booleans to zeros and ones; strings stay."""
    columns = {}
    for name, column in frame.items():
        if is_datetime64_any_dtype(column):
            column = (column - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        if is_bool_dtype(column) or is_numeric_dtype(column):
            column = column.astype(np.float64)
        columns[str(name)] = column
    return pd.DataFrame(columns, index=frame.index)


def categorical(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns that are neither numbers nor dates nor booleans."""
    return [str(name) for name in frame if not (is_numeric_dtype(frame[name]) or is_datetime64_any_dtype(frame[name]))]


def categories(X: pd.DataFrame, X_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Convert strings to pandas categories with the levels of the training rows; other levels become missing."""
    X, X_test = plain(X).copy(), plain(X_test).copy()
    for name in categorical(X):
        levels = pd.CategoricalDtype(sorted(X[name].dropna().unique(), key=str))
        known_level = X_test[name].where(X_test[name].isin(levels.categories))
        X[name], X_test[name] = X[name].astype(levels), known_level.astype(levels)
    return _renamed(X), _renamed(X_test)


def texts(X: pd.DataFrame, X_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Convert categories to strings, missing values included; also return the names of these columns."""
    X, X_test = plain(X).copy(), plain(X_test).copy()
    names = categorical(X)
    for name in names:
        X[name], X_test[name] = (part[name].astype(object).fillna("a gap").astype(str) for part in (X, X_test))
    return X, X_test, names


def with_medians(X: pd.DataFrame, X_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill missing numbers by the medians of the training rows; drop columns without any number."""
    numbers = X.select_dtypes("number").columns
    empty = [name for name in numbers if X[name].isna().all()]
    medians = X[numbers].median()
    return X.drop(columns=empty).fillna(medians), X_test.drop(columns=empty).fillna(medians)


def one_hot(X: pd.DataFrame, X_test: pd.DataFrame) -> tuple[Array, Array]:
    """Standardise numbers, fill missing ones by medians, and one-hot encode the thirty most frequent levels."""
    X, X_test = plain(X), plain(X_test)
    names = categorical(X)
    numbers = [name for name in X if name not in names]
    encoder = OneHotEncoder(max_categories=30, handle_unknown="infrequent_if_exist", sparse_output=False)
    coded = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("levels", make_pipeline(SimpleImputer(strategy="constant", fill_value="a gap"), encoder), names),
        ]
    )
    X, X_test = (part.astype(dict.fromkeys(names, object)).where(part.notna(), np.nan) for part in (X, X_test))
    return coded.fit(X).transform(X), coded.transform(X_test)


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Number the columns: LightGBM does not accept every character in a name."""
    return frame.set_axis([f"x{i}" for i in range(frame.shape[1])], axis=1)
