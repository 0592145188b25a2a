"""Headlines of the figures that explain: likelihoods, conditioning, dimensionality, robust toys, and the cost."""

from __future__ import annotations

from experiments.paper._headlines.row import Headline, Numbers, Row, halves, shown

CURVES, DIAGRAM, PICTURES = "curves only", "a diagram", "pictures only"


def loss_likelihood(numbers: Numbers) -> Headline:
    """Figure 1."""
    cases = {
        "scale, residual 2": ("normal scale", "residual 2"),
        "temperature, 75% right": ("softmax temperature", "right 75%"),
    }
    rows = [
        Row(
            name,
            CURVES,
            numbers.shown(case, "learned", digits=4),
            rival=f"{numbers.shown(case, 'closed form', digits=4)} (closed form)",
        )
        for name, case in cases.items()
    ]
    return Headline("Functions; no data.", tuple(rows), picture=2)


def conditioning(numbers: Numbers) -> Headline:
    """Figure 2."""
    spread = numbers.spread()

    def row(measure: str, kind: str, column: str) -> Row:
        rival = f"{numbers.shown('global', column, digits=2)} (global)"
        return Row(measure, DIAGRAM, numbers.shown(kind, column, digits=2), rival=rival, spread=spread)

    rows = (
        row("wrong labels, AUC of data temperatures", "data", "wrong labels"),
        row("wrong labels, AUC of predicted ones", "predicted", "wrong labels"),
        row("badly cropped and unseen, AUC of predicted ones", "predicted", "badly cropped, unseen"),
    )
    return Headline("Digits of scikit-learn, some of them spoiled.", rows, picture=2)


def dimensionality(numbers: Numbers) -> Headline:
    """Figure 3."""
    frame = numbers.frames[0]
    names = {name: "one scale per image" if name == "one" else name for name in frame.index}
    true = frame["NLL unseen"] - frame["above the true"]
    rows = tuple(
        Row(
            f"NLL, {words}",
            DIAGRAM,
            shown(frame["NLL unseen"][name]),
            rival=f"{shown(true[name])} (the true scales)",
            spread=numbers.spread(),
        )
        for name, words in names.items()
    )
    return Headline("Pictures drawn from known scales.", rows, picture=5)


def robust_classification(numbers: Numbers) -> Headline:
    """Figure 4."""
    rows = tuple(
        Row(
            f"accuracy, {name}",
            PICTURES,
            numbers.shown(name, "predicted temperature"),
            rival=f"{numbers.shown(name, 'plain')} (plain)",
            spread=halves(numbers.at(name, "gain"))[1],
        )
        for name in numbers.frames[0].index[:3]
    )
    return Headline("Two Gaussian classes with outliers.", rows)


def robust_models(numbers: Numbers) -> Headline:
    """Figure 9."""
    frame = numbers.frames[0]
    rows = tuple(
        Row(
            f"{domain}: {of['error']}",
            PICTURES,
            shown(of["with likelihood parameters"]),
            rival=f"{shown(of['plain'])} (plain)",
            spread=halves(of["difference"])[1],
        )
        for domain, of in frame.iterrows()
    )
    return Headline("Gaussian clouds and lines with outliers.", rows)


def conditioning_cost(numbers: Numbers) -> Headline:
    """Table 7."""
    rows = []
    for kind in numbers.frames[0].index:
        formula = numbers.at((kind, "bytes"), "formula", 1)
        time, spread = halves(numbers.at(kind, "in training"))
        rows.append(
            Row(f"bytes, {kind}", formula, f"{numbers.at(kind, 'bytes'):,}", rival="0 (squared error)", spread="none")
        )
        rows.append(
            Row(
                f"step time, {kind}",
                numbers.at((kind, "time"), "formula", 1),
                f"{time}×",
                rival="1× (squared error)",
                spread=spread,
            )
        )
    return Headline("Random rows.", tuple(rows))


def miscalibration_by_size(numbers: Numbers) -> Headline:
    """Figure 12."""
    rows = []
    for kind in ("one scale", "predicted scale"):
        by_width = numbers.frames[0].loc[kind]
        peak = by_width["CAL"].idxmax()
        rows += [
            Row(
                f"CAL, {kind}, width {width}",
                "a curve only",
                shown(by_width["CAL"][width]),
                spread=f"± {shown(by_width['±'][width])}",
            )
            for width in dict.fromkeys((by_width.index[0], peak, by_width.index[-1]))
        ]
    return Headline("A synthetic set, drawn anew for each seed.", tuple(rows))
