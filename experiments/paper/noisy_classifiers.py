"""Classifiers that learn from people who err, with and without a temperature that learns beside them.

CIFAR-10 with the labels of CIFAR-10N, of which none, 17 and 40 % are wrong. A network learns under cross-entropy,
under a predicted temperature, end to end and isolated, and under a temperature for every training row; after
cross-entropy a temperature is fitted to rows held out, whose labels are as noisy. One temperature for all rows is the
control: it tells what a temperature a row adds. Joint ones start from random weights, as in the paper, or all at one;
noisy labels of held-out pictures choose between them, and clean labels of fresh ones judge.
"""

from __future__ import annotations

import pandas as pd

from experiments.data import load_images
from experiments.entries.bar import Bar
from experiments.entries.cores import one_core
from experiments.entries.entry import Context, Result, Verdict
from experiments.entries.parts import Table
from experiments.paper._comparison import Comparison, Difference, paired
from experiments.paper._stored import stored, trains
from experiments.paper.vision_classifiers import (
    AFTER,
    CALM,
    DATA,
    DESIGNS,
    ISOLATED,
    JOINT,
    MEASURES,
    METHODS,
    NOISE,
    ONE,
    PLAIN,
    Effort,
    Found,
    main as train_and_keep,
    study,
)

JOINTS = (JOINT, CALM)
GS, LFS = AFTER
SHOWN = {
    "error": {JOINT: "violet", CALM: "red", ISOLATED: "blue", DATA: "green", ONE: "gold"},
    "NLL": {JOINT: "violet", CALM: "red", ISOLATED: "blue", LFS: "green", GS: "gold"},
}
POINTS = 2.0  # of accuracy that a joint temperature should gain where the labels are worst


@one_core()
def run(context: Context) -> Result:
    """Train every design on all labels, or draw what was kept of that."""
    effort = Effort()
    if trains(context, "cifar10"):
        about = "On the CIFAR-10 images in the data folder."
        train, fresh = (load_images("cifar10", part, context.data) for part in ("train", "test"))
        found = study(train, fresh, effort, context)
    else:
        kept = stored(NOISE)
        about, found = f"{kept.made} On CIFAR-10.", Found(**kept.arrays).whole
        if found.scores.shape[2] < 2:
            raise ValueError(
                "fewer than two seeds were trained to the end: run `python -m experiments.paper.noisy_classifiers`"
            )
    names = [f"{labels}, {wrong:.0%} wrong" for labels, wrong in zip(effort.labels, found.noise, strict=True)]
    compared = Comparison(
        {name: dict(zip(METHODS, own, strict=True)) for name, own in zip(names, found.scores, strict=True)},
        MEASURES,
        PLAIN,
        test_per_train=0,  # seeds
        order=METHODS,
    )
    verdict, notes, bar = judge(found)
    return Result(
        verdict,
        f"{about} {notes}",
        tables(compared, found),
        tuple(compared.picture(measure, colours) for measure, colours in SHOWN.items()),
        (bar,),
    )


def tables(compared: Comparison, found: Found) -> tuple[Table, ...]:
    """Accuracy, its differences to cross-entropy, NLL and ECE, and what was seen of held-out rows."""
    seeds = found.scores.shape[2]
    accuracy = 100 * (1 - compared.means("error", "labels"))
    means = {measure: compared.means(measure, "labels") for measure in ("NLL", "ECE")}
    held = pd.DataFrame(
        100 * (1 - found.held[:, : len(DESIGNS), :, 0].mean(2)), index=accuracy.index, columns=list(DESIGNS)
    )
    shown = [method for method in DESIGNS if method != PLAIN]
    trained = f"Trained on the labels named; mean over {seeds} seeds"
    return (
        Table(
            accuracy[list(DESIGNS)],
            f"Accuracy in %, by the clean labels of fresh pictures. {trained}. Temperatures fitted afterwards leave it "
            "as it is.",
            {tuple(DESIGNS): "higher"},
            digits=1,
        ),
        Table(
            compared.against_baseline("error", "labels", shown),
            f"Error less that of {PLAIN}, paired by seed, ± one standard error.",
        ),
        *(
            Table(own, f"{measure} by the clean labels of fresh pictures. {trained}.", {tuple(own.columns): "lower"})
            for measure, own in means.items()
        ),
        Table(
            held,
            f"Accuracy in % by the labels, as noisy as those trained on, of held-out pictures. {trained}. By the last "
            "row the joint temperature that is held against the bar is chosen.",
            {tuple(DESIGNS): "higher"},
            digits=1,
        ),
    )


def gain(found: Found, ours: str, theirs: str, measure: str = "error") -> Difference:
    """How much lower ours is than theirs where the labels are worst, over seeds."""
    last, which = found.scores[-1], MEASURES.index(measure)
    own, other = (last[METHODS.index(method), :, which] for method in (ours, theirs))
    return paired(other, own, test_per_train=0)


def chosen(found: Found) -> str:
    """The joint temperature with the lowest error by the noisy labels of held-out rows, where the labels are worst."""
    return min(JOINTS, key=lambda method: float(found.held[-1, METHODS.index(method), :, 0].mean()))


def judge(found: Found) -> tuple[Verdict, str, Bar]:
    """It holds if the joint temperature gains two points of accuracy, and in part if it clearly gains some, or NLL.

    The NLL is held against the best that cross-entropy comes to, as it is or with a temperature fitted afterwards.
    """
    best = chosen(found)
    nll = found.scores[-1, :, :, MEASURES.index("NLL")].mean(1)
    rival = min((PLAIN, GS, LFS), key=lambda method: float(nll[METHODS.index(method)]))
    points, lower_nll = gain(found, best, PLAIN), gain(found, best, rival, "NLL")
    wrong = f"{found.noise[-1]:.0%}"
    bar = Bar(
        f"accuracy of a joint temperature above {PLAIN}'s, {wrong} of the labels wrong",
        100 * points.mean,
        "≥",
        POINTS,
        " points",
        100 * points.error,
        case=best,
    )
    if points.sign > 0 and 100 * points.mean >= POINTS:
        verdict: Verdict = "holds"
    else:
        verdict = "holds in part" if points.sign > 0 or lower_nll.sign > 0 else "does not hold"
    accuracy = 1 - found.scores[-1, :, :, 0].mean(1)
    others = ", ".join(
        f"{method} {_points(gain(found, method, PLAIN))}" for method in DESIGNS if method not in (PLAIN, best)
    )
    sentences = [
        f"With {wrong} of the labels wrong, {PLAIN} is right about {accuracy[METHODS.index(PLAIN)]:.1%} of fresh "
        f"pictures. Of the joint temperatures held-out rows choose “{best}”, which gains {bar.measured}.",
        f"The others, in points: {others}. Against one temperature for all rows “{best}” gains "
        f"{_points(gain(found, best, ONE))} points.",
        f"Its NLL is {nll[METHODS.index(best)]:.3f}; the best that {PLAIN} comes to, with a temperature fitted "
        f"afterwards or without, is {nll[METHODS.index(rival)]:.3f} (“{rival}”).",
    ]
    rows = gain(found, DATA, PLAIN)
    if verdict != "holds" and rows.sign > 0:
        sentences.append(
            "A temperature read off a picture is the same whatever its label says: it cannot single out the rows whose "
            f"label is wrong. One for each training row can, and gains {_points(rows)} points."
        )
    return verdict, " ".join(sentences), bar


def _points(difference: Difference) -> str:
    return f"{100 * difference.mean:+z.1f} ± {100 * difference.error:.1f}".replace("-", "−")


def main() -> None:
    """Train on the pictures in LIKELY_DATA and keep what draws the tables."""
    train_and_keep(["--only", NOISE])


if __name__ == "__main__":
    main()
