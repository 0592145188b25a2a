"""What the paper claims of each table and figure, as sides of bars, with the stored numbers; the main claim first."""

from __future__ import annotations

import re
from collections.abc import Callable

from experiments.entries.entry import Result
from experiments.paper._headlines.row import Numbers
from experiments.paper._rule import (
    Claim,
    Interval,
    around,
    average,
    exact,
    mean,
    median,
    once,
    printed,
    ratio,
    share,
)

LETTER = ("PCA+S", "AE+S")


def loss_likelihood(numbers: Numbers) -> list[Claim]:
    """Figure 1: the loss adapts without tuning."""
    error = (numbers.frames[0]["difference"] / numbers.frames[0]["closed form"]).abs().max()
    return [
        Claim("the largest relative error of a learned scale or temperature", exact(error), "below", 1e-3, digits=7)
    ]


def conditioning(numbers: Numbers) -> list[Claim]:
    """Figure 2: which kinds exist at test time."""
    claimed = {"global": "defined", "predicted": "defined", "data": "refused"}
    right = sum(numbers.at(kind, "at test time") == state for kind, state in claimed.items())
    measure = "the number of the three kinds that exist at test time as drawn"
    return [Claim(measure, exact(right), "above", 2, digits=0)]


def dimensionality(numbers: Numbers) -> list[Claim]:
    """Figure 3: three choices, three likelihoods."""
    found = re.search(r"([\d.]*\d) at most", numbers.captions[0])
    seeds = int(numbers.count("seeds"))
    nll = {
        {"one": "one scale"}.get(name, name): around(value, float(found[1] if found else "nan") / seeds**0.5, seeds)
        for name, value in numbers.frames[0]["NLL unseen"].items()
    }
    return [
        Claim(f"the NLL with {a} minus that with {b}", nll[a] - nll[b], "above", 0)
        for a, b in (("one scale", "one per channel"), ("one per channel", "one per pixel"))
    ]


def robust_classification(numbers: Numbers) -> list[Claim]:
    """Figure 4: hotter around the outliers, and more accurate."""
    cluster = "far cluster, 25%"
    low, high = numbers.at(cluster, "hotter, 95%").replace(",", "").split(" to ")
    hotter = Interval(numbers.at(cluster, "hotter"), float(low), float(high))
    gain = printed(numbers.at(cluster, "gain"), int(numbers.count("seeds")))
    return [
        Claim("the temperature of the outliers over that of other rows", hotter, "above", 1, digits=0),
        Claim("the gain in accuracy on clean rows", gain, "above", 0),
    ]


def vae(numbers: Numbers) -> list[Claim]:
    """Table 1: predicted parameters reconstruct best, cheaply."""
    paper = numbers.frames[0].loc["paper"]
    seeds = int(numbers.count("seeds"))
    six = paper[paper["paper's MSE"].notna()]
    error = {name: around(of["MSE"], of["±"] / seeds**0.5, seeds) for name, of in six.iterrows()}
    best = "Predicted H×W×C"
    others = [name for name in six.index if not name.startswith("Predicted")]
    unpredicted = min(others, key=lambda name: error[name].value)
    second = min((name for name in six.index if name != best), key=lambda name: error[name].value)
    step = printed(paper.loc[best, "step"], int(numbers.count("seeds")))
    size, unit = paper.loc[best, "kept"].split()
    kilobytes = float(size) * {"B": 1e-3, "KB": 1, "MB": 1e3}[unit]
    return [
        Claim(f"the MSE of {best} minus that of {unpredicted}, the best global or data one,", error[best]
              - error[unpredicted], "below", 0, digits=1),
        Claim(f"the MSE of {best} minus that of {second}, the best other of six,", error[best] - error[second], "below",
              0, digits=1),
        Claim("its time per step over that of the normal likelihood", step, "below", 1.1, digits=2),
        Claim("the memory of its parameters in KB", exact(kilobytes), "below", 1000, digits=0),
    ]  # fmt: skip


def regression_tables(numbers: Numbers, *, first: str) -> list[Claim]:
    """Tables 2 and 6: a predicted scale against one fitted scale and, for CAL, against the paper's σ = 1."""
    cal, mse, nll = (numbers.rows("here", table) for table in (1, 2, 3))
    sets = f"mean of {len(cal)} sets"
    claims = {
        "MSE": Claim(f"the MSE with a predicted scale over that with one scale, geometric {sets},",
                     ratio(mse["temp"], mse["base"]), "below", 1, digits=2),
        "CAL": Claim(f"CAL with a predicted scale over CAL with one fitted scale, geometric {sets},",
                     ratio(cal["temp"], cal["base, σ fitted"]), "below", 1, digits=2),
        "NLL": Claim(f"the NLL with a predicted scale minus that with one fitted scale, {sets},",
                     mean(nll["temp"] - nll["base, σ fitted"]), "below", 0, digits=2),
        "σ = 1": Claim(f"CAL with a predicted scale over CAL with σ = 1, geometric {sets},",
                       ratio(cal["temp"], cal["base, σ = 1"]), "below", 1, digits=2),
    }  # fmt: skip
    return [claims[first], *(claim for name, claim in claims.items() if name != first)]


def robust_regression_deep(numbers: Numbers) -> list[Claim]:
    """Table 2, which speaks of the error first."""
    return regression_tables(numbers, first="MSE")


def robust_regression_linear(numbers: Numbers) -> list[Claim]:
    """Table 6, which speaks of calibration first."""
    return regression_tables(numbers, first="CAL")


def svhn_temperatures(numbers: Numbers) -> list[Claim]:
    """Figure 5: what a high temperature, learned with the network, marks."""
    row, seeds = ("with the network", "temperature"), int(numbers.count("seeds"))

    def claim(measure: str, column: str, bar: float = 0, name: str = "") -> Claim:
        return Claim(measure, printed(numbers.at(row, column), seeds, deviation=True), "above", bar, name, digits=2)

    return [
        claim("the rank correlation of the temperature with blur", "blurred"),
        claim("that with a small crop", "small"),
        claim("that with darkness", "dark"),
        claim("the AUC with which it finds the network's mistakes", "mistakes, AUC", 0.5, "chance"),
    ]


def outlier_detection(numbers: Numbers) -> list[Claim]:
    """Table 3: the two best by median AUC."""
    claims = []
    for name in LETTER:
        rival, low, high = numbers.at(name, "less the best rival, 95%").split("; ")
        value = numbers.at(name, "median AUC") - numbers.at(rival, "median AUC")
        measure = f"the median AUC of {name} minus that of {rival}, the best rival,"
        claims.append(Claim(measure, Interval(value, float(low), float(high)), "above", 0))
    return claims


def outlier_distribution(numbers: Numbers) -> list[Claim]:
    """Figure 6: competitive with the middle rival."""
    auc = numbers.frames[1]
    own = [name for name in auc.columns if name.startswith(LETTER) or name.endswith("Detector")]
    middle = auc.drop(columns=own).median(axis=1)
    measure = "the AUC of {} minus that of the middle rival, mean of {} sets,"
    return [Claim(measure.format(name, len(auc)), mean(auc[name] - middle), "above", 0) for name in LETTER]


def adaptive_regularization(numbers: Numbers) -> list[Claim]:
    """Figure 7: by the paper's own objective, at the better of two stops."""
    frame = numbers.frames[2]

    def claim(method: str, words: str, bar: float, name: str = "") -> Claim:
        stops = frame.loc[method].filter(like="after")
        best = stops[stops.mean().idxmin()]
        found = ratio(best, frame.loc[method, "best λ"])
        return Claim(f"the error of {words} over that of the best single strength", found, "below", bar, name, digits=2)

    within = "the best, and 10%"
    return [
        claim("Dynamic Ridge", "D-Ridge", 1.1, within),
        claim("Dynamic Lasso", "D-LASSO", 1.1, within),
        claim("Multi Lasso", "M-LASSO", 1),
    ]


def classifier_calibration(numbers: Numbers) -> list[Claim]:
    """Table 4: LS and LFS, without a penalty, against every rival."""
    here = numbers.rows("here", 1)
    rivals = {"GS": "GS", "VS": "plain VS", "Platt": "Platt", "isotonic": "Isotonic", "no calibration": "Uncalibrated"}
    return [
        Claim(f"the ECE of {own} over that of {words}, geometric mean of {len(here)} networks,",
              ratio(here[f"plain {own}"], here[rival]), "below", 1, digits=2)
        for words, rival in rivals.items()
        for own in ("LS", "LFS")
    ]  # fmt: skip


def regressor_calibration(numbers: Numbers) -> list[Claim]:
    """Table 5: LS and DS against isotonic regression and one scale."""
    here = numbers.rows("here", 1)
    methods = {"LS": "LS, no penalty", "DS": "DS"}
    return [
        Claim(f"the CAL of {own} over that of {words}, geometric mean of {len(here)} sets,",
              ratio(here[column], here[rival]), "below", 1, digits=2)
        for words, rival in (("isotonic regression", "Isotonic"), ("GS", "GS"))
        for own, column in methods.items()
    ]  # fmt: skip


def corruption_aupr(numbers: Numbers) -> list[Claim]:
    """Figure 8: predicted temperatures find what data temperatures miss, which the network then has."""
    seeds = int(numbers.count("seeds"))
    gaps = {
        name: {kind: printed(text, seeds) for kind, text in of.items()} for name, of in numbers.frames[1].iterrows()
    }
    over = f"mean of {len(numbers.frames[1].columns)} corruptions"
    claims = [
        Claim(f"the AUPR of predicted minus that of data temperatures, {over},",
              average(list(gaps["MT above DT"].values())), "above", 0),
        Claim(f"the AUPR of the confidence of the network of data temperatures minus that of these, {over},",
              average(list(gaps["DT's network above DT"].values())), "above", 0),
    ]  # fmt: skip
    return claims + [
        Claim(f"the AUPR of predicted temperatures minus chance, {kind},", gap, "above", 0)
        for kind, gap in gaps["MT above chance"].items()
    ]


def robust_models(numbers: Numbers) -> list[Claim]:
    """Figure 9: robust in three domains."""
    return [
        Claim(f"the change of the error in {domain} ({of['error']})",
              printed(of["difference"], int(numbers.count("seeds"))), "below", 0)
        for domain, of in numbers.frames[0].iterrows()
    ]  # fmt: skip


def robust_regression(numbers: Numbers) -> list[Claim]:
    """Figure 10: what the scale depends on matters, MPLS-XY rivals RANSAC, in a fraction of its time."""
    seeds = int(numbers.count("seeds"))

    def at(method: str, column: str, spread: str) -> Interval:
        return median(numbers.at(method, column), numbers.at(method, spread), seeds)

    errors = {method: at(method, "slope error", "spread") for method in ("MPLS-XY", "DPLS", "RANSAC")}
    times = {method: at(method, "ms", "spread, ms") for method in ("MPLS-XY", "RANSAC")}
    return [
        Claim("the slope error of MPLS-XY minus that of DPLS", errors["MPLS-XY"] - errors["DPLS"], "below", 0),
        Claim("the slope error of MPLS-XY minus that of RANSAC", errors["MPLS-XY"] - errors["RANSAC"], "below", 0,
              digits=4),
        Claim("its time in ms minus that of RANSAC", times["MPLS-XY"] - times["RANSAC"], "below", 0, digits=1),
    ]  # fmt: skip


def vae_shape_scale(numbers: Numbers) -> list[Claim]:
    """Figure 11: shape and scale vary with the input, within ranges."""
    seeds = int(numbers.count("seeds"))

    def claim(measure: str, row: str, column: str, bar: float = 0, name: str = "", digits: int = 0) -> Claim:
        found = printed(numbers.at(row, column), seeds, deviation=True)
        return Claim(measure, found, "above", bar, name, digits=digits)

    between = "the share of the {}'s variance that lies between pictures, in %,"
    inside = "the share of {} in the paper's range, in %,"
    return [
        claim(between.format("shape"), "shape α", "between pictures"),
        claim(between.format("scale"), "scale σ", "between pictures"),
        claim(inside.format("shapes"), "shape α", "in it", 50, "“generally”"),
        claim(inside.format("scales"), "scale σ", "in it", 50, "“generally”"),
        claim("the rank correlation of scale and error", "scale σ", "with the error", digits=2),
    ]


def miscalibration_by_size(numbers: Numbers) -> list[Claim]:
    """Figure 12: CAL grows with the width, over the whole range and over its upper half."""
    frame, sets = numbers.frames[0], int(numbers.count("sets"))
    widths = list(frame.loc["one scale"].index)
    claims = []
    for start in (widths[0], widths[len(widths) // 2]):
        for kind in ("one scale", "predicted scale"):
            first, last = (around(frame.loc[(kind, w), "CAL"], frame.loc[(kind, w), "±"], sets)
                           for w in (start, widths[-1]))  # fmt: skip
            measure = f"the change of CAL from width {start} to {widths[-1]}, {kind},"
            claims.append(Claim(measure, last - first, "above", 0))
    return claims


def offset_stability(numbers: Numbers) -> list[Claim]:
    """Figure 13: stability, convergence, and how often training diverged without an offset."""
    seeds, rate = int(numbers.frames[0]["seeds"].max()), numbers.frames[1].columns[-1]
    without, with_offset = (share(int(numbers.at(name, rate, 1)), seeds) for name in ("offset 0", "offset 0.2"))
    steps = numbers.at("offset 0.2", "steps") - numbers.at("offset 0", "steps")
    return [
        Claim(f"the share of diverged runs at {rate}, offset 0.2 minus offset 0,", with_offset - without, "below", 0,
              digits=2),
        Claim("the number of steps to convergence, offset 0.2 minus offset 0,", once(steps), "below", 0, digits=0),
        Claim(f"the share of diverged runs at {rate} with offset 0", without, "above", 0.5, "“frequently”", digits=2),
    ]  # fmt: skip


def conditioning_cost(numbers: Numbers) -> list[Claim]:
    """Table 7: bytes grow as the formulas say, and a step takes longest where they say so."""
    slopes = numbers.frames[1].xs("bytes", level=1)
    formulas = {("global", "in p"): 1, ("data", "in p"): 1, ("data", "in n"): 1, ("predicted", "in d"): 1}
    wrong = max(abs(float(slopes.loc[kind, column]) - power) for (kind, column), power in formulas.items())
    turns = int(numbers.count("turns"))

    def time(kind: str) -> Interval:
        value, half = (float(part) for part in numbers.at(kind, "loss alone").split(" ± "))
        return median(value, 2 * half, turns)

    longer = "the step time of a {} parameter minus that of a global one, in units of the squared error's,"
    return [
        Claim("the largest distance of an exponent of the bytes from its formula", exact(wrong), "below", 0.05),
        *(
            Claim(longer.format(kind), time(kind) - time("global"), "above", 0, digits=1)
            for kind in ("data", "predicted")
        ),
    ]


CLAIMS: dict[str, Callable[[Numbers], list[Claim]]] = {
    "loss-likelihood": loss_likelihood,
    "conditioning": conditioning,
    "dimensionality": dimensionality,
    "robust-classification": robust_classification,
    "vae": vae,
    "robust-regression-deep": robust_regression_deep,
    "svhn-temperatures": svhn_temperatures,
    "outlier-detection": outlier_detection,
    "outlier-distribution": outlier_distribution,
    "adaptive-regularization": adaptive_regularization,
    "classifier-calibration": classifier_calibration,
    "regressor-calibration": regressor_calibration,
    "corruption-aupr": corruption_aupr,
    "robust-models": robust_models,
    "robust-regression-linear": robust_regression_linear,
    "robust-regression": robust_regression,
    "vae-shape-scale": vae_shape_scale,
    "miscalibration-by-size": miscalibration_by_size,
    "offset-stability": offset_stability,
    "conditioning-cost": conditioning_cost,
}


def claims_of(name: str, result: Result) -> list[Claim]:
    """The claims of an entry with the numbers of a result."""
    return CLAIMS[name](Numbers(result))
