"""Headlines of robust modelling: regressors, the robust line, the auto-encoder, and adaptive regularization."""

from __future__ import annotations

import numpy as np

from experiments.paper._headlines.row import NOTHING, Headline, Numbers, Row, halves, record, shown

FITTED = "base, σ fitted"
TABULAR = "The eight tabular sets, at most 5,000 rows, 10 splits."


def robust_regression_tables(numbers: Numbers) -> Headline:
    """Tables 2 and 6: means of CAL, and on how many sets a predicted scale is better, neither, worse."""
    here, paper = numbers.rows("here", 1), numbers.rows("paper", 1)
    rows = [
        Row(
            f"CAL, mean of {len(here)} sets",
            shown(paper["temp"].mean()),
            shown(here["temp"].mean()),
            shown(here["ours"].mean()),
            f"{shown(here[FITTED].mean())} ({FITTED})",
            numbers.spread(1),
        )
    ]
    for table, measure in enumerate(("CAL", "MSE", "NLL"), start=1):
        printed = numbers.rows("paper", table).dropna(axis="columns", how="all")
        base = next(column for column in printed if column.startswith("base"))
        rows.append(
            Row(
                f"{measure}, sets better – neither – worse",
                record(np.sign(printed["temp"] - printed[base]).astype(int)),
                numbers.at(("temp", FITTED), measure),
                numbers.at(("ours", FITTED), measure),
                f"against {FITTED}",
                "2 standard errors",
            )
        )
    return Headline(TABULAR, tuple(rows))


def robust_regression(numbers: Numbers) -> Headline:
    """Figure 10."""
    ours, rival = "two scales (ours)", "RANSAC"

    def row(measure: str, method: str, column: str, digits: int) -> Row:
        return Row(
            measure,
            "pictures only",
            numbers.shown(method, column, digits=digits),
            numbers.shown(ours, column, digits=digits),
            f"{numbers.shown(rival, column, digits=digits)} ({rival})",
            f"{numbers.shown(method, 'spread' if column == 'slope error' else 'spread, ms', digits=digits)} "
            "(quartiles)",
        )

    both_sides = numbers.frames[1]["Y, both sides"]
    rows = (
        row("slope error, MPLS-XY", "MPLS-XY", "slope error", 4),
        row("slope error, DPLS", "DPLS", "slope error", 4),
        row("time of a fit in ms, MPLS-XY", "MPLS-XY", "ms", 1),
        Row(
            "slope error, outliers on both sides",
            NOTHING,
            shown(both_sides["MPLS-XY"], 4),
            shown(both_sides[ours], 4),
            f"{shown(both_sides[rival], 4)} ({rival})",
        ),
    )
    return Headline("Lines with a third of the rows outliers, 25 seeds.", rows)


def vae(numbers: Numbers) -> Headline:
    """Table 1."""
    paper = numbers.frames[0].loc["paper"]
    ours = numbers.frames[0].loc["ours"]
    six = paper[paper["paper's MSE"].notna()]
    normal = f"{shown(paper.loc['Normal', 'MSE'], 1)} (normal likelihood)"
    rows = [
        Row(
            f"MSE, {name}",
            shown(of["paper's MSE"], 1),
            shown(of["MSE"], 1),
            shown(ours["MSE"].get(name, np.nan), 1),
            normal,
            f"± {shown(of['±'], 1)}",
        )
        for name, of in six.iterrows()
        if name.endswith("H×W×C") or name in ours.index
    ]
    step, spread = halves(paper.loc["Predicted H×W×C", "step"])
    rows.append(
        Row(
            "step, Predicted H×W×C",
            paper.loc["Predicted H×W×C", "paper's step"],
            f"{step}×",
            NOTHING,
            "1× (normal likelihood)",
            spread.rstrip("×"),
        )
    )
    return Headline("8,000 faces of CelebA, 64 × 64, 5 seeds.", tuple(rows))


def vae_shape_scale(numbers: Numbers) -> Headline:
    """Figure 11."""
    frame = numbers.frames[0]
    rows = [
        Row(
            f"{name}, 5% to 95%",
            of["paper's range"],
            f"{halves(of['5%'])[0]} to {halves(of['95%'])[0]}",
            spread=halves(of["50%"])[1],
        )
        for name, of in frame.iterrows()
    ]
    correlation, spread = halves(frame.loc["scale σ", "with the error"])
    rows.append(Row("rank correlation of scale and error", NOTHING, correlation, rival="0 (chance)", spread=spread))
    return Headline(f"Validation faces of CelebA, {numbers.count('seeds')} seeds.", tuple(rows))


def adaptive_regularization(numbers: Numbers) -> Headline:
    """Figure 7."""
    stops = numbers.frames[2].filter(like="after").groupby(level="method").median()
    dense, sparse = "L2, dense", "L1, a tenth not zero"

    def row(measure: str, method: str, column: str) -> Row:
        by_letter = ", later ".join(map(shown, stops.loc[method])) if method in stops.index else NOTHING
        fixed = f"{numbers.shown('best λ', column)} (best fixed)"
        return Row(measure, "curves only", by_letter, numbers.shown(method, column), fixed, numbers.spread())

    rows = (
        row("error, Dynamic Ridge", "Dynamic Ridge", dense),
        row("error, Dynamic Lasso", "Dynamic Lasso", sparse),
        row("error, Multi-Lasso", "Multi Lasso", sparse),
        row("error, spike and slab", "spike and slab", sparse),
    )
    return Headline("500 rows of 500 normal columns, 5 seeds.", rows)
