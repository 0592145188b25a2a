"""Headlines of outlier detection: ODDS, SVHN and corrupted pictures."""

from __future__ import annotations

import re

from experiments.paper._headlines.row import NOTHING, Headline, Numbers, Row, best, halves

LETTER = ("PCA+S", "AE+S")
FREE = ("PCA+S", "a free scale per training row", "torch", "PCA")  # of the table of readings


def outlier_detection(numbers: Numbers) -> Headline:
    """Table 3."""
    frame = numbers.frames[0]
    rivals = frame[frame["paper"].notna()].drop(index=list(LETTER))["median AUC"]
    rival = best(rivals, highest=True)
    rows = tuple(
        Row(
            f"median AUC, {name}",
            numbers.shown(name, "paper"),
            numbers.shown(name, "median AUC"),
            numbers.shown(f"{name}, ours", "median AUC"),
            rival,
            f"± {numbers.shown(name, '±')}",
        )
        for name in LETTER
    ) + tuple(
        Row(
            f"mean {score}, PCA+S",
            NOTHING,
            numbers.shown("PCA+S", f"mean {score}"),
            numbers.shown("PCA+S, ours", f"mean {score}"),
            best(frame.loc[rivals.index, f"mean {score}"], highest=True),
        )
        for score in ("AUC", "AP")
    )
    free = Row(
        "median AUC, PCA+S, one free scale per row",
        rows[0].paper,
        numbers.shown(FREE, "median AUC", 1),
        NOTHING,
        rival,
        f"± {numbers.shown(FREE, '±', 1)}",
    )
    return Headline(data(numbers), (*rows[:2], free, *rows[2:]))


def outlier_distribution(numbers: Numbers) -> Headline:
    """Figure 6."""
    frame = numbers.frames[0]
    own = [name for name in frame.index if name.startswith(LETTER) or name.endswith("Detector")]
    rivals = frame.drop(index=own)
    rows = []
    for name in LETTER:
        for column, words in (("50%", "median"), ("25%", "lower quartile")):
            rows.append(
                Row(
                    f"{words} AUC, {name}",
                    "a box plot",
                    numbers.shown(name, column),
                    numbers.shown(f"{name}, ours", column),
                    best(rivals[column], highest=True),
                    f"{numbers.shown(name, '25%')} to {numbers.shown(name, '75%')} over sets",
                )
            )
    return Headline(data(numbers), tuple(rows))


def data(numbers: Numbers) -> str:
    """How many sets of ODDS the caption counts."""
    return f"{numbers.count('sets')} sets of ODDS."


def made_on(numbers: Numbers) -> str:
    """The pictures and the seeds that the notes of a run name."""
    found = re.search(r"On ([\d,]+ [^.]*?), seeds 0 to (\d+)", numbers.notes)
    return f"{found[1]}, {1 + int(found[2])} seeds." if found else ""


def svhn_temperatures(numbers: Numbers) -> Headline:
    """Figure 5."""
    letter, ours, confidence = (
        ("with the network", "temperature"),
        ("logits standardised", "temperature"),
        "1 − confidence",
    )

    def row(measure: str, column: str) -> Row:
        value, spread = halves(numbers.at(letter, column))
        rival = halves(numbers.at((letter[0], confidence), column))[0]
        return Row(
            measure, "pictures only", value, halves(numbers.at(ours, column))[0], f"{rival} ({confidence})", spread
        )

    rows = (
        row("mistakes, AUC", "mistakes, AUC"),
        row("rank correlation with blur", "blurred"),
        row("rank correlation with a small crop", "small"),
        row("rank correlation with darkness", "dark"),
    )
    return Headline(made_on(numbers), rows, picture=-1)


def corruption_aupr(numbers: Numbers) -> Headline:
    """Figure 8."""
    kinds = list(numbers.frames[0].columns)
    rows = []
    for kind in kinds:
        value, spread = halves(numbers.at(("MT", "temperature"), kind))
        one = halves(numbers.at(("MT, all one at first", "temperature"), kind))[0]
        plain = halves(numbers.at(("no temperature", "NLL of the label"), kind))[0]
        rows.append(Row(f"AUPR of MT, {kind}", "curves only", value, one, f"{plain} (NLL, no temperature)", spread))
    for kind in kinds:
        value, spread = halves(numbers.at(("DT", "temperature"), kind))
        own = halves(numbers.at(("DT", "1 − confidence"), kind))[0]
        rows.append(
            Row(f"AUPR of DT, {kind}", "curves only", value, NOTHING, f"{own} (its network's confidence)", spread)
        )
    return Headline(made_on(numbers), tuple(rows))
