"""Table 3 to the letter: every reading of the paper beside the best rival."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.paper._letter_detectors import AE_S

KEYS = ["model", "reading", "start", "components"]
DRAWS = 2000  # of sets, with replacement


def readings(table: pd.DataFrame, best: float) -> pd.DataFrame:
    """A row for each model, reading and start: its AUC and AP over sets, and in how many seeds it has the lead.

    Args:
        table: a row for each set and seed of each of them.
        best: the median AUC of the best rival.

    Returns:
        Medians over sets, as means over seeds with their standard deviation, beside other measures.
    """
    rows = []
    for key, own in table.groupby(KEYS, sort=False):
        medians = own.groupby("seed")["AUC"].median()
        auc = own.groupby("set")["AUC"].mean()
        low, high = interval(auc.to_numpy())
        rows.append(
            {
                **dict(zip(KEYS, key, strict=True)),
                "median AUC": medians.mean(),
                "±": medians.std(ddof=1) if len(medians) > 1 else np.nan,
                "90% interval": f"{low:.3f} to {high:.3f}",
                "mean AUC": auc.mean(),
                "mean AP": own["AP"].mean(),
                "above the best rival": f"{(medians > best).sum()} of {len(medians)} seeds",
            }
        )
    frame = pd.DataFrame(rows)
    frame.loc[frame["model"] == AE_S, "components"] = "–"
    return frame.set_index(KEYS)


def interval(values: np.ndarray) -> tuple[float, float]:
    """The 90% bootstrap interval of the median over sets."""
    drawn = np.random.default_rng(0).choice(values, size=(DRAWS, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.05, 0.95])
    return float(low), float(high)
