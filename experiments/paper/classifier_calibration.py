"""Table 4: recalibrating classifiers, every method on every saved network, judged by paired differences.

The outputs of four of the paper's six networks are kept with the package; a data folder may have more. The rows a
network was not trained on are halved at random, several times: one half calibrates, the other judges. Then networks
that learn their temperature as they learn to classify, from labels some of which are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.data import Logits, list_logits, load_logits
from experiments.entries.cores import one_core
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Table
from experiments.paper import noisy_classifiers, vision_classifiers
from experiments.paper._comparison import Comparison, beside_paper
from likely.calibration import (
    AutoCalibrator,
    Calibrator,
    FeatureTemperature,
    GlobalTemperature,
    IsotonicCalibration,
    LinearTemperature,
    PlattScaling,
    StructuredMatrixScaling,
    VectorScaling,
    compose,
)
from likely.metrics import expected_calibration_error, negative_log_likelihood

UNCALIBRATED, PLATT, ISOTONIC, GS, VS, LS, LFS = "Uncalibrated", "Platt", "Isotonic", "GS", "VS", "LS", "LFS"
PLAIN_VS, PLAIN_LS, PLAIN_LFS = "plain VS", "plain LS", "plain LFS"  # without a penalty, as the paper fits them
BOTH, AUTO = "Composed", "Auto"
OURS, RIVALS = (LS, LFS), (GS, VS, PLATT, ISOTONIC)
METHODS: dict[str, Callable[[bool], Calibrator]] = {
    PLATT: lambda described: PlattScaling(),
    ISOTONIC: lambda described: IsotonicCalibration(),
    GS: lambda described: GlobalTemperature(),
    VS: lambda described: VectorScaling(),
    LS: lambda described: LinearTemperature(),
    LFS: lambda described: FeatureTemperature(),
    PLAIN_VS: lambda described: VectorScaling(penalty=None),
    PLAIN_LS: lambda described: LinearTemperature(penalty=None),
    PLAIN_LFS: lambda described: FeatureTemperature(penalty=None),
    BOTH: lambda described: compose(
        StructuredMatrixScaling(), FeatureTemperature() if described else LinearTemperature()
    ),
    AUTO: lambda described: AutoCalibrator(),
}
NEED_FEATURES = (LFS, PLAIN_LFS)
PAPER_COLUMNS = (UNCALIBRATED, PLATT, ISOTONIC, GS, PLAIN_VS, PLAIN_LS, PLAIN_LFS)
PAPER = {
    name: dict(zip(PAPER_COLUMNS, values, strict=True))
    for name, values in {
        "cifar10_resnet50": (0.250, 0.034, 0.053, 0.046, 0.037, 0.018, 0.018),
        "cifar100_resnet50": (0.642, 0.061, 0.072, 0.035, 0.044, 0.030, 0.173),
        "svhn_resnet50": (0.072, 0.053, 0.010, 0.029, 0.022, 0.009, 0.009),
        "cifar10_densenet121": (0.253, 0.048, 0.042, 0.039, 0.034, 0.028, 0.028),
        "cifar100_densenet121": (0.537, 0.049, 0.067, 0.024, 0.024, 0.014, 0.031),
        "svhn_densenet121": (0.079, 0.018, 0.010, 0.022, 0.017, 0.011, 0.010),
    }.items()
}
SPLITS, QUICK_SPLITS = 5, 3
QUICK_CLASSES, QUICK_FEATURES = 10, 64  # quick runs leave greater networks out, and the slowest methods
SLOWEST = (BOTH, AUTO)
SHOWN = {VS: "gold", LS: "blue", LFS: "green", BOTH: "violet", AUTO: "red"}
MEASURES = ("ECE", "NLL")


@one_core()
def run(context: Context) -> Result:
    """Calibrate every network on one half of its rows and judge on the other, several times over."""
    sources, left_out = networks(context)
    methods = [name for name in METHODS if not context.quick or name not in SLOWEST]
    splits = QUICK_SPLITS if context.quick else SPLITS
    halves = np.random.default_rng(context.seed).integers(2**31, size=splits)
    scores: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (name, outputs), half in context.track([(item, half) for item in sources.items() for half in halves]):
        for method, pair in context.once((name, int(half)), judged, outputs, methods, int(half)).items():
            scores.setdefault(name, {}).setdefault(method, []).append(pair)
    found = Comparison(
        {name: {method: np.array(pairs) for method, pairs in own.items()} for name, own in scores.items()},
        MEASURES,
        GS,
        test_per_train=1,  # halves
        order=(UNCALIBRATED, *METHODS),
    )
    records = Table(
        found.differences_and_records([ours for ours in OURS if ours in found.methods], RIVALS),
        "Ours less the rival, mean over networks (below zero is better), and the record: networks on which ours is "
        "clearly better – neither – clearly worse. Clearly: the paired difference over splits is more than two "
        "standard errors from zero (Nadeau and Bengio's, which allow for splits that share rows).",
    )
    pictures = tuple(found.picture(measure, SHOWN) for measure in ("NLL", "ECE"))
    notes = describe(found, left_out)
    jointly = noisy_classifiers.run(context)
    return Result(
        "not judged",
        f"{notes} Temperatures that learn with the network, from labels some of which are wrong: {jointly.notes}",
        (records, *tables(found, splits), *jointly.tables),
        (*pictures, *jointly.pictures),
        jointly.bars,
    )


def tables(found: Comparison, splits: int) -> list[Table]:
    """ECE and NLL, first of the paper's methods as it fits them, then of those that learn their penalty."""
    made = []
    for measure, what in (("ECE", "ECE in 15 bins"), ("NLL", "NLL in nats")):
        plain = found.means(measure, "network", PAPER_COLUMNS)
        caption = f"{what}, mean over {splits} splits, of the paper's methods as it fits them, without a penalty."
        if measure == "ECE":
            plain = beside_paper(plain, PAPER, "ECE")
            caption += (
                " The paper's networks are Keras's, trained for 300 epochs on all rows; its values are of one split. "
                "Where there are features of some rows only, every method uses those rows. Ours on CIFAR-10 and SVHN, "
                "where they are not in the data folder, learned from 17,500 rows, for 300 epochs too; their "
                "features are kept along 64 directions, on which LFS without a penalty errs less than it would on all."
            )
        learned = found.means(measure, "network", [UNCALIBRATED, *(m for m in METHODS if not m.startswith("plain"))])
        made += [
            Table(plain, caption, {tuple(plain.columns): "lower"}),
            Table(
                learned,
                f"{what}, with penalties learned by evidence; Composed is matrix scaling, then LFS, or LS where there "
                f"are no features. {found.spread(measure, learned.columns)}",
                {tuple(learned.columns): "lower"},
            ),
            Table(
                found.against_baseline(measure, "network", SHOWN),
                f"{measure}: the paired difference to GS, ± one standard error.",
            ),
        ]
    return made


def networks(context: Context) -> tuple[dict[str, Logits], list[str]]:
    """The outputs of each network, and which a quick run leaves out."""
    sources = vision_classifiers.networks()
    if context.data:
        sources |= {name: load_logits(name, context.data) for name in list_logits(context.data)}
    small = {name: outputs.described for name, outputs in sources.items() if not context.quick or _small(outputs)}
    return small, sorted(set(sources) - set(small))


def _small(outputs: Logits) -> bool:
    width = 0 if outputs.features is None else outputs.features.shape[1]
    return outputs.n_classes <= QUICK_CLASSES and width <= QUICK_FEATURES


def judged(outputs: Logits, methods: Sequence[str], seed: int) -> dict[str, tuple[float, float]]:
    """ECE and NLL of every method on one half of the rows, after fitting on the other."""
    order = np.random.default_rng(seed).permutation(len(outputs.labels))
    fit, test = order[: len(order) // 2], order[len(order) // 2 :]
    labels = outputs.labels[test]
    found = {}
    for name, logits in calibrated(outputs, methods, fit, test).items():
        probabilities = torch.softmax(torch.as_tensor(logits).double(), dim=1)
        nll = float(negative_log_likelihood(labels, logits=logits))
        found[name] = (expected_calibration_error(labels, probabilities), nll)
    return found


def calibrated(
    outputs: Logits, methods: Sequence[str], fit: NDArray[np.int64], test: NDArray[np.int64]
) -> dict[str, NDArray[np.float32]]:
    """The test rows' logits after each method; methods that read features are left out where there are none."""
    logits, labels, features = outputs.logits, outputs.labels, outputs.features
    done = {UNCALIBRATED: logits[test]}
    for name in methods:
        if features is None and name in NEED_FEATURES:
            continue
        known, new = (None, None) if features is None else (features[fit], features[test])
        calibrator = METHODS[name](features is not None).fit(logits[fit], labels[fit], known)
        done[name] = calibrator.transform(logits[test], new)
    return done


def describe(found: Comparison, left_out: Sequence[str] = ()) -> str:
    """How often ours is clearly better and worse than the rivals, and where LFS without a penalty does worst."""

    def count(sign: int, measure: str) -> int:
        return sum(found.signs(ours, rival, measure).count(sign) for ours in OURS for rival in RIVALS)

    total = sum(count(sign, "ECE") for sign in (-1, 0, 1))
    many = len(found.scores)
    sentences = [
        f"Of {total} comparisons of LS and LFS with GS, VS, Platt and isotonic on {many} network{'s'[: many > 1]}, "
        f"ours is clearly better in {count(-1, 'ECE')} and clearly worse in {count(1, 'ECE')} by ECE, better in "
        f"{count(-1, 'NLL')} and worse in {count(1, 'NLL')} by NLL.",
    ]
    if PLAIN_LFS in found.methods:
        ece, nll = (found.means(measure, "network") for measure in MEASURES)
        worst = ece[PLAIN_LFS].idxmax()
        plain, ridge, one = ((ece.loc[worst, method], nll.loc[worst, method]) for method in (PLAIN_LFS, LFS, GS))
        sentences.append(
            f"LFS without a penalty, as the paper fits it, does worst on {worst}: ECE {plain[0]:.3f} and NLL "
            f"{plain[1]:.3f}, where GS has {one[0]:.3f} and {one[1]:.3f}; with the evidence ridge it has "
            f"{ridge[0]:.3f} and {ridge[1]:.3f}."
        )
    if left_out:
        sentences.append(f"Left out of this quick run, for their size: {', '.join(left_out)}.")
    return " ".join(sentences)
