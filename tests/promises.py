"""Every public estimator, calibrator, detector and loss once: the subjects of the promises in test_promises.py.

A :class:`Kind` says how objects of a kind are given rows and asked about them; a :class:`Subject` is one class of that
kind. A new class joins by one line in ``SUBJECTS``; a test compares the list with what the package exports.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import has_fit_parameter

import likely
from likely import calibration, linear, outliers, tabular

Rows = dict[str, np.ndarray]


def take(rows: Rows, which: Any) -> Rows:
    """Some of the rows, or all of them in another order."""
    return {name: part[which] for name, part in rows.items()}


def tensor(part: Any) -> torch.Tensor:
    return part if isinstance(part, torch.Tensor) else torch.as_tensor(np.ascontiguousarray(part))


class Kind:
    """How objects of one kind are given rows and asked about them."""

    table = "X"  # the part of the rows whose layout, type and columns are varied
    target: str | None = "y"

    def draw(self, seed: int, n: int = 240) -> Rows:
        """Rows with something to learn."""
        raise NotImplementedError

    def noise(self, seed: int, n: int = 240) -> Rows:
        """Rows with nothing to learn: the target is independent of everything else."""
        rows = self.draw(seed, n)
        order = np.random.default_rng(seed + 1).permutation(n)
        return {**rows, self.target: rows[self.target][order]} if self.target else rows

    def fit(self, subject: Any, rows: Rows, weight: Any = None) -> Any:
        return subject.fit(rows["X"], rows["y"], **({} if weight is None else {"sample_weight": weight}))

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        """What a fitted object answers, one line of numbers per row."""
        raise NotImplementedError

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        """How far off the answer is for each row; lower is better."""
        raise NotImplementedError

    def ignorant(self, rows: Rows) -> float:
        """The mean loss of somebody who knows the distribution of the target and nothing else."""
        raise NotImplementedError

    def turned(self, rows: Rows, order: np.ndarray) -> Rows:
        """The rows with their columns in another order."""
        return {**rows, self.table: rows[self.table][:, order]}

    def turned_back(self, answer: np.ndarray, order: np.ndarray) -> np.ndarray:
        """The answer for such rows in the original order of columns."""
        return answer

    def takes_weights(self, subject: Any) -> bool:
        return has_fit_parameter(subject, "sample_weight")


class Regressor(Kind):
    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 4))
        return {"X": X, "y": X @ [1.0, -2.0, 0.0, 0.5] + 3 + 0.5 * rng.normal(size=n)}

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        answers = [np.asarray(fitted.predict(rows["X"]))]
        if hasattr(fitted, "predict_interval"):
            answers += map(np.asarray, fitted.predict_interval(rows["X"]))
        return np.column_stack(answers)

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.square(np.asarray(fitted.predict(rows["X"])) - rows["y"])

    def ignorant(self, rows: Rows) -> float:
        return float(np.var(rows["y"]))


class Classifier(Kind):
    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 4))
        scores = np.column_stack([X[:, 0], X[:, 1], -X[:, 0] - X[:, 1]])
        return {"X": X, "y": np.array(["a", "b", "c"])[np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1)]}

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.asarray(fitted.predict_proba(rows["X"]))

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        given = self.ask(fitted, rows)[np.arange(len(rows["y"])), np.searchsorted(fitted.classes_, rows["y"])]
        return -np.log(np.maximum(given, 1e-300))

    def ignorant(self, rows: Rows) -> float:
        _, counts = np.unique(rows["y"], return_counts=True)
        shares = counts / counts.sum()
        return float(-(shares * np.log(shares)).sum())


class Detector(Kind):
    target = None

    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        return {"X": rng.normal(size=(n, 4)) @ [[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0.3, 0, 0, 1]]}

    def fit(self, subject: Any, rows: Rows, weight: Any = None) -> Any:
        return subject.fit(rows["X"], **({} if weight is None else {"sample_weight": weight}))

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.column_stack([fitted.outlier_score(rows["X"]), fitted.predict(rows["X"])])

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        """Whether a clean row is called an outlier."""
        return (fitted.predict(rows["X"]) < 0).astype(float)

    def ignorant(self, rows: Rows) -> float:
        return 0.05


class Components(Detector):
    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.asarray(fitted.inverse_transform(fitted.transform(rows["X"])))

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.square(self.ask(fitted, rows) - rows["X"]).sum(1)

    def ignorant(self, rows: Rows) -> float:
        return float(np.var(rows["X"], axis=0).sum())

    def turned_back(self, answer: np.ndarray, order: np.ndarray) -> np.ndarray:
        return answer[:, np.argsort(order)]


class Logits(Kind):
    """Calibrators of classifiers: a row is its logits, its features and its label."""

    table = "logits"

    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, n)
        logits = 3 * (np.eye(3)[y] + 0.8 * rng.normal(size=(n, 3)))
        return {"logits": logits, "y": y, "features": rng.normal(size=(n, 2))}

    def fit(self, subject: Any, rows: Rows, weight: Any = None) -> Any:
        return subject.fit(rows["logits"], rows["y"], rows["features"], sample_weight=weight)

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.asarray(fitted.predict_proba(rows["logits"], rows["features"]))

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        return -np.log(np.maximum(self.ask(fitted, rows)[np.arange(len(rows["y"])), rows["y"]], 1e-300))

    def ignorant(self, rows: Rows) -> float:
        return float(np.log(3))

    def turned(self, rows: Rows, order: np.ndarray) -> Rows:
        return {**rows, "logits": rows["logits"][:, order], "y": np.argsort(order)[rows["y"]]}

    def turned_back(self, answer: np.ndarray, order: np.ndarray) -> np.ndarray:
        return answer[:, np.argsort(order)]


class Module(Logits):
    """A network with a calibrator behind it: here the identity, so that its inputs are its logits."""

    def fit(self, subject: Any, rows: Rows, weight: Any = None) -> Any:
        return subject.fit(
            torch.as_tensor(np.ascontiguousarray(rows["logits"])), torch.as_tensor(np.ascontiguousarray(rows["y"]))
        )

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return fitted.predict_proba(tensor(rows["logits"])).numpy()

    def takes_weights(self, subject: Any) -> bool:
        return False


class Forecasts(Kind):
    """Calibrators of regressors: a row is a mean, a scale, features and the target."""

    table = "features"

    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        features, mean = rng.normal(size=(n, 3)), rng.normal(size=n)
        scale = np.exp(0.3 * rng.normal(size=n))
        return {
            "mean": mean,
            "scale": scale,
            "features": features,
            "y": mean + 2 * scale * np.exp(0.5 * features[:, 0]) * rng.normal(size=n),
        }

    def fit(self, subject: Any, rows: Rows, weight: Any = None) -> Any:
        return subject.fit(rows["mean"], rows["scale"], rows["y"], rows["features"], sample_weight=weight)

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        return np.column_stack(fitted.predict_interval(rows["mean"], rows["scale"], rows["features"]))

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        dist = fitted.distribution(rows["mean"], rows["scale"], rows["features"])
        return -dist.log_prob(torch.as_tensor(rows["y"])).numpy()

    def noise(self, seed: int, n: int = 240) -> Rows:
        """The scale is already right, so that features and scales have nothing to add."""
        rng = np.random.default_rng(seed)
        rows = self.draw(seed, n)
        return {**rows, "y": rows["mean"] + rows["scale"] * rng.normal(size=n)}

    def ignorant(self, rows: Rows) -> float:
        """The negative log-likelihood under the true scale."""
        z = (rows["y"] - rows["mean"]) / rows["scale"]
        return float(np.mean(np.square(z) / 2 + np.log(rows["scale"]) + 0.5 * np.log(2 * np.pi)))


class Loss(Kind):
    """A loss whose parameters are learned on some rows by full-batch gradient steps."""

    table = "prediction"
    target = "target"

    def __init__(self, target: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> None:
        self.targets = target

    def draw(self, seed: int, n: int = 240) -> Rows:
        rng = np.random.default_rng(seed)
        prediction = rng.normal(size=(n, 3))
        return {
            "prediction": prediction,
            "target": self.targets(rng, prediction),
            "features": rng.normal(size=(n, 2)),
            "index": np.arange(n),
        }

    def fit(self, subject: Any, rows: Rows, weight: Any = None, steps: int = 15) -> Any:
        # A scale starts where its gradient is zero: with a small eps Adam would take a full step along a rounding.
        learned = list(subject.parameters())
        optimizer = torch.optim.Adam(learned, lr=0.05, eps=1e-2) if learned else None
        weight = None if weight is None else torch.as_tensor(weight)
        for _ in range(steps if optimizer else 0):
            optimizer.zero_grad()
            self.call(subject, rows, sample_weight=weight).backward()
            optimizer.step()
        return subject

    def call(self, loss_fn: Any, rows: Rows, **options: Any) -> torch.Tensor:
        given = {name: tensor(part) for name, part in rows.items()}
        kinds = {type(getattr(loss_fn, name)) for name in loss_fn.slots}
        if likely.Predicted in kinds:
            options["features"] = given["features"].to(torch.float32)
        if likely.Data in kinds:
            options["index"] = given["index"]
        return loss_fn(given["prediction"], given["target"], **options)

    def ask(self, fitted: Any, rows: Rows) -> np.ndarray:
        before, fitted.reduction = fitted.reduction, "none"
        training = fitted.training
        try:
            with torch.no_grad():
                each = self.call(fitted.eval(), rows)
        finally:
            fitted.reduction = before
            fitted.train(training)
        return each.reshape(len(each), -1).double().numpy()

    def loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        return self.ask(fitted, rows).mean(1)

    def takes_weights(self, subject: Any) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Subject:
    """One public class, ready to be fitted.

    ``tolerance`` is how closely two fits that must agree do, relative to the spread of the answers; ``single`` says
    that it computes in single precision, where a row alone may differ from a row among others by rounding; ``gaps``
    that it takes rows with missing values;
    ``except_for`` names the promises that are not kept, each with the reason that docs/promises.md gives.
    """

    make: Callable[[], Any]
    kind: Kind
    label: str = ""
    tolerance: float = 1e-6
    single: bool = False
    gaps: bool = False
    except_for: Mapping[str, str] = field(default_factory=dict)

    @property
    def covers(self) -> type:
        return type(self.make())

    def __str__(self) -> str:
        return self.label or self.covers.__name__


def real(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return prediction + 1.5 * rng.normal(size=prediction.shape)


def classes(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return np.argmax(prediction + rng.gumbel(size=prediction.shape), axis=1)


def bits(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return (rng.random(prediction.shape) < 1 / (1 + np.exp(-prediction))).astype(float)


def counts(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(prediction)).astype(float)


def amounts(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return rng.gamma(2.0, np.exp(prediction) / 2)


def shares(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return rng.beta(2, 3, prediction.shape).clip(0.01, 0.99)


def angles(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return prediction + rng.vonmises(0, 2, prediction.shape)


def ordered(rng: np.random.Generator, prediction: np.ndarray) -> np.ndarray:
    return rng.integers(0, 3, prediction.shape).astype(float)


def losses() -> list[Subject]:
    """Every loss, in turn with a parameter for all rows, per row of the training set, and predicted.

    That every loss takes every kind is in the likelihoods' contract.
    """
    found = []
    by_target = {
        real: (
            likely.NormalLoss,
            likely.LaplaceLoss,
            likely.StudentTLoss,
            likely.SkewStudentTLoss,
            likely.HuberLoss,
            likely.RobustLoss,
            likely.LogisticLoss,
            likely.AsymmetricLaplaceLoss,
        ),
        classes: (likely.SoftmaxLoss,),
        bits: (likely.BernoulliLoss,),
        counts: (
            likely.PoissonLoss,
            likely.NegativeBinomialLoss,
            likely.ZeroInflatedPoissonLoss,
            likely.ZeroInflatedNegativeBinomialLoss,
        ),
        amounts: (likely.GammaLoss, likely.LogNormalLoss),
        shares: (likely.BetaLoss,),
        angles: (likely.VonMisesLoss,),
        ordered: (likely.OrdinalLoss,),
    }
    kinds: dict[str, Callable[[tuple[int, ...]], Any]] = {
        "global": likely.Global,
        "data": lambda axes: likely.Data(1000, axes, fallback="mean"),
        "predicted": lambda axes: likely.Predicted(2, axes),
    }
    turns = itertools.cycle(kinds.items())
    for target, members in by_target.items():
        for loss in members:
            # A row's gradients of the level can cancel, and Adam enlarges the rounding that is left (1e-14 in double).
            tolerance = (
                1e-4 if loss in (likely.AsymmetricLaplaceLoss, likely.ZeroInflatedNegativeBinomialLoss) else 1e-5
            )
            if not loss.slots:
                found.append(Subject(loss, Loss(target), loss.__name__, tolerance, single=True))
                continue
            name, parameter = next(turns)

            def make(loss: Any = loss, parameter: Any = parameter) -> Any:
                torch.manual_seed(0)
                slot = next(iter(loss.slots))
                return loss(**{slot: parameter((2,) if slot == "cutpoints" else ())})

            broken = {"weights as repeats": RUNNING} if name == "predicted" else {}
            label = f"{loss.__name__}-{name}"
            found.append(Subject(make, Loss(target), label, tolerance, single=True, except_for=broken))
    return found


# Reasons for promises that are not kept, as docs/promises.md gives them.
DRAWN = "initial weights are drawn column by column, so that another order of columns is another start"
BATCHES = "batches are drawn by row, so that a row of weight two is not drawn like two equal rows"
SPLITS = "trees draw the columns of a split by position, so that another order is another draw"
FOLDS = "a row of weight two is in one fold, while two equal rows may be in two"
RUNNING = "features are standardised by a running mean and spread that ignore the weights"

_RIDGE = LinearRegression()
_LOGISTIC = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
_QUICK = {"max_steps": 25, "hidden": (8,), "random_state": 0}
_FEW = {"max_steps": 15, "random_state": 0}
_STACK = {"cv": 2, "random_state": 0}
_STACKED = {"order of columns": SPLITS, "weights as repeats": FOLDS}
_TRAINED = {"order of columns": DRAWN, "weights as repeats": BATCHES}


REGRESSOR, CLASSIFIER, DETECTOR, LOGITS, FORECASTS = Regressor(), Classifier(), Detector(), Logits(), Forecasts()

_SCALES = {name: calibration.SCALE_METHODS[name]() for name in ("global", "linear", "isotonic")}
SUBJECTS = [
    Subject(linear.DynamicRegression, REGRESSOR),
    Subject(linear.DynamicRidge, REGRESSOR),
    Subject(linear.DynamicLasso, REGRESSOR),
    Subject(linear.MultiRidge, REGRESSOR),
    Subject(linear.MultiLasso, REGRESSOR),
    Subject(linear.SpikeSlabRegression, REGRESSOR),
    Subject(lambda: linear.RobustLinearRegression(random_state=0), REGRESSOR),
    Subject(linear.DynamicLogisticRegression, CLASSIFIER),
    Subject(linear.RobustLogisticRegression, CLASSIFIER),
    Subject(linear.RobustPCA, Components()),
    Subject(lambda: tabular.NetworkRegressor(**_QUICK), REGRESSOR, except_for=_TRAINED, single=True),
    Subject(lambda: tabular.NetworkClassifier(**_QUICK), CLASSIFIER, except_for=_TRAINED, single=True),
    Subject(lambda: tabular.LikelihoodRegressor(**_STACK), REGRESSOR, except_for=_STACKED, single=True, gaps=True),
    Subject(lambda: tabular.LikelihoodClassifier(**_STACK), CLASSIFIER, except_for=_STACKED, single=True, gaps=True),
    Subject(lambda: calibration.CalibratedRegressor(_RIDGE), REGRESSOR),
    Subject(lambda: calibration.CalibratedClassifier(_LOGISTIC), CLASSIFIER),
    Subject(lambda: calibration.CalibratedModule(torch.nn.Identity(), "global"), Module()),
    Subject(calibration.GlobalTemperature, LOGITS),
    Subject(calibration.LinearTemperature, LOGITS),
    Subject(calibration.FeatureTemperature, LOGITS),
    Subject(lambda: calibration.DeepTemperature(max_iter=40), LOGITS, single=True),
    Subject(calibration.VectorScaling, LOGITS),
    Subject(calibration.StructuredMatrixScaling, LOGITS),
    Subject(calibration.PlattScaling, LOGITS),
    Subject(calibration.IsotonicCalibration, LOGITS),
    Subject(lambda: calibration.AutoCalibrator(cv=2), LOGITS),
    Subject(lambda: calibration.compose(calibration.VectorScaling(), calibration.LinearTemperature()), LOGITS),
    Subject(calibration.GlobalScale, FORECASTS),
    Subject(calibration.LinearScale, FORECASTS),
    Subject(calibration.IsotonicScale, FORECASTS),
    Subject(lambda: calibration.DeepScale(max_iter=40), FORECASTS, except_for={"order of columns": DRAWN}, single=True),
    Subject(lambda: calibration.AutoScale(candidates=_SCALES, cv=2), FORECASTS),
    Subject(lambda: calibration.compose(calibration.LinearScale(), calibration.IsotonicScale(), cv=2), FORECASTS),
    Subject(outliers.ScatterDetector, DETECTOR),
    Subject(lambda: outliers.LikelihoodDetector(random_state=0), DETECTOR),
    Subject(lambda: outliers.ScaledPCADetector(**_FEW), DETECTOR, except_for=_TRAINED, single=True),
    Subject(lambda: outliers.ScaledAutoencoderDetector(**_FEW), DETECTOR, except_for=_TRAINED, single=True),
    *losses(),
]

# Public classes with a fit or a forward pass that are none of the above, and why.
NOT_SUBJECTS = {
    "Calibrator": "the base class of calibrators",
    "ScaleCalibrator": "the base class of scale calibrators",
    "LikelihoodLoss": "the base class of losses",
    "MultiTaskLoss": "a sum of losses, each of which is a subject",
    "TokenTemperature": "a softmax loss whose logits never exist all at once; tested against SoftmaxLoss",
    "Supervised": "a model and its loss as one module",
    "Parameter": "the base class of parameters",
    "Fixed": "a parameter, tested within every loss",
    "Global": "a parameter, tested within every loss",
    "Data": "a parameter, tested within every loss",
    "Predicted": "a parameter, tested within every loss",
}
