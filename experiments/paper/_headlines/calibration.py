"""Headlines of recalibration: classifiers, regressors, and the offset of the softplus."""

from __future__ import annotations

from experiments.paper._headlines.row import NOTHING, Headline, Numbers, Row, best, shown

RIVALS = ["Platt", "Isotonic", "GS", "plain VS"]


def classifier_calibration(numbers: Numbers) -> Headline:
    """Table 4."""
    here, paper = numbers.rows("here", 1), numbers.rows("paper", 1)
    penalties = numbers.frames[2]
    penalised, nll = penalties.loc[here.index], numbers.frames[5].loc[here.index]
    plain_nll = numbers.frames[4].loc[here.index]
    rival = best(here[RIVALS].mean())
    rows = [
        Row(
            f"ECE of {name}, mean of {len(here)} networks",
            shown(paper[f"plain {name}"].mean()),
            shown(here[f"plain {name}"].mean()),
            shown(penalised[name].mean()),
            rival,
            numbers.spread(2),
        )
        for name in ("LS", "LFS")
    ]
    rows += [
        Row(
            f"NLL of {name}, mean of {len(here)} networks",
            NOTHING,
            shown(plain_nll[f"plain {name}"].mean()),
            shown(nll[name].mean()),
            best(plain_nll[RIVALS].mean()),
            numbers.spread(5),
        )
        for name in ("LS", "LFS")
    ]
    data = f"CIFAR-10, CIFAR-100 and SVHN; {len(penalties)} networks, {numbers.count('splits', 1)} splits."
    return Headline(data, tuple(rows), picture=2)


def regressor_calibration(numbers: Numbers) -> Headline:
    """Table 5."""
    here, paper = numbers.rows("here", 1).mean(), numbers.rows("paper", 1).mean()
    sets = len(numbers.rows("here", 1))
    rival = best(here[["Isotonic", "GS"]], digits=4)
    rows = (
        Row(
            f"CAL of LS, mean of {sets} sets",
            shown(paper["LS"], 4),
            shown(here["LS, no penalty"], 4),
            shown(here["LS"], 4),
            rival,
            numbers.spread(1),
        ),
        Row(
            f"CAL of DS, mean of {sets} sets",
            shown(paper["DS"], 4),
            shown(here["DS"], 4),
            NOTHING,
            rival,
            numbers.spread(1),
        ),
        Row(
            f"CAL of LS, then isotonic, mean of {sets} sets",
            NOTHING,
            NOTHING,
            shown(here["LS, then isotonic"], 4),
            rival,
            numbers.spread(1),
        ),
        Row(
            "CAL of LS, sets better – neither – worse",
            NOTHING,
            NOTHING,
            numbers.at("Isotonic", "LS, CAL"),
            "against Isotonic",
            "2 standard errors",
        ),
        Row(
            "CAL of LS, sets better – neither – worse",
            NOTHING,
            NOTHING,
            numbers.at("GS", "LS, CAL"),
            "against GS",
            "2 standard errors",
        ),
    )
    return Headline("The eight tabular sets, 10 splits.", rows)


def offset_stability(numbers: Numbers) -> Headline:
    """Figure 13."""
    seeds = int(numbers.frames[0]["seeds"].max())
    rate = numbers.frames[1].columns[-1]

    def diverged(name: str) -> str:
        return f"{numbers.at(name, rate, 1)} of {seeds}"

    rows = (
        Row(f"diverged at {rate}, offset 0", "frequently", diverged("offset 0"), rival=f"{diverged('exp')} (exp)"),
        Row(f"diverged at {rate}, offset 0.2", CURVES, diverged("offset 0.2"), rival=f"{diverged('exp')} (exp)"),
        *(
            Row(
                f"test NLL at lr 0.1, {name}",
                CURVES,
                numbers.shown(name, "test NLL"),
                rival=f"{numbers.shown('one temperature (GS)', 'test NLL')} (GS)",
                spread=f"{numbers.shown(name, 'spread')} (quartiles)",
            )
            for name in ("offset 0", "offset 0.2")
        ),
    )
    return Headline("Logits of a ResNet-50 on CIFAR-100.", rows, picture=3)


CURVES = "curves only"
