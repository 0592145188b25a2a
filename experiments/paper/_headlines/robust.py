"""Headlines of robust modelling: regressors, the robust line, the auto-encoder, and adaptive regularization."""

from __future__ import annotations

import re

import numpy as np

from experiments.paper._headlines.row import NOTHING, Headline, Numbers, Row, best, halves, record, shown

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
    better, _, worse = rows[1].letter.split(" – ")
    sentence = (
        f"Against one fitted scale, a scale predicted as in the paper is clearly better calibrated on {better} and "
        "worse on "
        f"{worse} of {len(here)} sets (MSE {rows[2].letter}, NLL {rows[3].letter}); ours has the better NLL on "
        f"{rows[3].ours.split()[0]}."
    )
    return Headline(sentence, TABULAR, tuple(rows))


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
    share = numbers.at("MPLS-XY", "ms") / numbers.at(rival, "ms")
    sentence = (
        f"On large X deviants MPLS-XY errs by {rows[0].letter} in {shown(share, 1)} times RANSAC's time, where "
        "RANSAC errs by "
        f"{rows[0].rival.split()[0]} and DPLS by {rows[1].letter}; with outliers on both sides it errs by "
        f"{rows[3].letter}."
    )
    return Headline(sentence, "Lines with a third of the rows outliers, 25 seeds.", rows)


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
    lowest = six["MSE"].idxmin()
    second = six["MSE"].drop(lowest)
    sentence = (
        f"{lowest} has the lowest error of the six parametrisations, {shown(six['MSE'][lowest], 1)}, before "
        f"{best(second, digits=1)}; our recipe with one global shape and scale has "
        f"{shown(ours.loc['Global 1', 'MSE'], 1)}."
    )
    return Headline(sentence, "8,000 faces of CelebA, 64 × 64, 5 seeds.", tuple(rows))


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
    sentence = (
        f"Shape and scale vary with the picture (between pictures "
        f"{halves(frame.loc['shape α', 'between pictures'])[0]} and "
        f"{halves(frame.loc['scale σ', 'between pictures'])[0]}% of the variance); in the paper's ranges are "
        f"{halves(frame.loc['shape α', 'in it'])[0]} and {halves(frame.loc['scale σ', 'in it'])[0]}% of them."
    )
    return Headline(sentence, f"Validation faces of CelebA, {numbers.count('seeds')} seeds.", tuple(rows))


def adaptive_regularization(numbers: Numbers) -> Headline:
    """Figure 7."""
    moved = re.search(r"strength of [\d.]+ and an error of ([\d.]+) to [\d.]+ and ([\d.]+)", numbers.notes)
    letter = f"{moved[1]}, later {moved[2]}" if moved else NOTHING
    dense, sparse = "L2, dense", "L1, a tenth not zero"

    def row(measure: str, method: str, column: str, by_letter: str) -> Row:
        fixed = f"{numbers.shown('best λ', column)} (best fixed)"
        return Row(measure, "curves only", by_letter, numbers.shown(method, column), fixed, numbers.spread())

    rows = (
        row("error, Dynamic Ridge", "Dynamic Ridge", dense, "no minimum"),
        row("error, Dynamic Lasso", "Dynamic Lasso", sparse, letter),
        row("error, Multi-Lasso", "Multi Lasso", sparse, "no minimum"),
        row("error, spike and slab", "spike and slab", sparse, NOTHING),
    )
    sentence = (
        f"Scales learned by evidence come to errors of {rows[0].ours} (ridge) and {rows[1].ours} (lasso), where the "
        "best fixed "
        f"strengths have {rows[0].rival.split()[0]} and {rows[1].rival.split()[0]}, and Multi-Lasso to "
        f"{rows[2].ours}; the "
        "paper's own objective has no minimum."
    )
    return Headline(sentence, "500 rows of 500 normal columns, 5 seeds.", rows)
