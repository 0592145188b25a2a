"""Batch by batch, over processes and in collections the metrics are the functions of all rows."""

import pickle

import pytest
import torch
from torch.distributions import Normal, StudentT

from likely import metrics
from pairwise import together

pytest.importorskip("torchmetrics")
from torchmetrics import MetricCollection, MetricTracker

from likely.integrations.torchmetrics import Metric

GENERATOR = torch.Generator().manual_seed(0)
ROWS = 90
PROBABILITIES = torch.softmax(2 * torch.randn(ROWS, 3, generator=GENERATOR), 1)
LABELS = torch.randint(3, (ROWS,), generator=GENERATOR)
P, Y = torch.rand(ROWS, generator=GENERATOR), torch.randint(2, (ROWS,), generator=GENERATOR)
MEAN, SCALE = torch.randn(ROWS, generator=GENERATOR), 0.5 + torch.rand(ROWS, generator=GENERATOR)
TARGET = torch.randn(ROWS, generator=GENERATOR)
WEIGHT = torch.rand(ROWS, generator=GENERATOR)
PARTS = [slice(0, 40), slice(40, 41), slice(41, ROWS)]

CLASSES = {
    "ECE": (metrics.expected_calibration_error, {}),
    "debiased": (metrics.expected_calibration_error, {"norm": "l2", "debiased": True}),
    "quantile": (metrics.expected_calibration_error, {"strategy": "quantile"}),
    "class": (metrics.expected_calibration_error, {"pos_label": 1, "n_bins": 5}),
    "MCE": (metrics.maximum_calibration_error, {"n_bins": 7}),
    "smooth": (metrics.smooth_calibration_error, {}),
    "classwise": (metrics.classwise_calibration_error, {"average": None}),
    "Brier": (metrics.brier_score, {"scale_by_half": True}),
    "NLL": (metrics.negative_log_likelihood, {}),
}
NUMBERS = {
    "CAL": (metrics.quantile_calibration_error, {"levels": [0.1, 0.5, 0.9]}),
    "area": (metrics.miscalibration_area, {}),
    "CRPS": (metrics.crps, {}),
    "NLL": (metrics.negative_log_likelihood, {}),
    "coverage": (metrics.interval_coverage, {"coverage": 0.8}),
    "score": (metrics.interval_score, {"coverage": 0.8}),
}


def close(found, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def check(metric, batches, expected):
    """Over batches, after a reset, through pickle, and as two processes would merge it."""
    for _ in range(2):
        for batch in batches:
            metric.update(*batch)
        close(metric.compute(), expected)
        close(pickle.loads(pickle.dumps(metric)).compute(), expected)
        metric.reset()
    first, second = metric.clone(), metric.clone()
    first.update(*batches[0])
    for batch in batches[1:]:
        second.update(*batch)
    if hasattr(second, "merge_state"):  # from torchmetrics 1.6 on
        second.merge_state(first)
        close(second.compute(), expected)


@together("name", CLASSES)
@together("weight", [None, WEIGHT], ids=["even", "weighted"])
@together(("probabilities", "labels"), [(PROBABILITIES, LABELS), (P, Y)], ids=["three", "two"])
def test_metrics_of_classes(name, weight, probabilities, labels):
    function, options = CLASSES[name]
    batches = [(probabilities[i], labels[i], None if weight is None else weight[i]) for i in PARTS]
    check(Metric(function, **options), batches, function(labels, probabilities, **options, sample_weight=weight))


@together("name", NUMBERS)
@together("weight", [None, WEIGHT], ids=["even", "weighted"])
@together("make", [Normal, lambda mean, scale: StudentT(4.0, mean, scale)], ids=["normal", "t"])
def test_metrics_of_numbers(name, weight, make):
    function, options = NUMBERS[name]
    batches = [(make(MEAN[i], SCALE[i]), TARGET[i], None if weight is None else weight[i]) for i in PARTS]
    check(Metric(function, **options), batches, function(TARGET, make(MEAN, SCALE), **options, sample_weight=weight))


def test_metrics_of_forecasts_alone():
    batches = [((MEAN[i], SCALE[i]), TARGET[i], WEIGHT[i]) for i in PARTS]
    check(Metric(metrics.sharpness), batches, metrics.sharpness(mean=MEAN, scale=SCALE, sample_weight=WEIGHT))
    check(Metric(metrics.interval_width), batches, metrics.interval_width(mean=MEAN, scale=SCALE, sample_weight=WEIGHT))


def test_logits():
    logits = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1))
    batches = [(logits[i], LABELS[i]) for i in PARTS]
    check(
        Metric(metrics.negative_log_likelihood, argument="logits"),
        batches,
        metrics.negative_log_likelihood(LABELS, logits=logits),
    )


def test_targets_of_several_dimensions():
    mean, scale, target = (t.reshape(-1, 3) for t in (MEAN, SCALE, TARGET))
    metric = Metric(metrics.quantile_calibration_error)
    for part in (slice(0, 10), slice(10, 30)):
        metric.update((mean[part], scale[part]), target[part])
    close(metric.compute(), metrics.quantile_calibration_error(target, mean=mean, scale=scale))


def test_a_collection_merges_only_what_is_alike():
    """Both coverages are 1 in the first batch, and so would be taken for one metric."""
    collection = MetricCollection(
        {
            "80": Metric(metrics.interval_coverage, coverage=0.8),
            "95": Metric(metrics.interval_coverage, coverage=0.95),
            "CRPS": Metric(metrics.crps),
        }
    )
    collection.update((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    collection.update((torch.zeros(4), torch.ones(4)), torch.full((4,), 1.5))
    found = collection.compute()
    assert found["80"] == 0.5
    assert found["95"] == 1.0

    functions = (metrics.expected_calibration_error, metrics.maximum_calibration_error, metrics.brier_score)
    errors = MetricCollection({function.__name__: Metric(function) for function in functions})
    for part in PARTS:
        errors.update(PROBABILITIES[part], LABELS[part])
    assert sorted(map(len, errors.compute_groups.values())) == [1, 2]
    close(errors.compute()["maximum_calibration_error"], metrics.maximum_calibration_error(LABELS, PROBABILITIES))


def test_forward_gives_the_batch():
    metric = Metric(metrics.brier_score)
    metric(P[:40], Y[:40])
    close(metric(P[40:], Y[40:]), metrics.brier_score(Y[40:], P[40:]))
    close(metric.compute(), metrics.brier_score(Y, P))


def test_what_is_no_forecast_says_so():
    with pytest.raises(TypeError, match="torch Distribution, got Tensor"):
        Metric(metrics.crps).update(MEAN, TARGET)


def test_options_may_be_set_later() -> None:
    forecast, y = Normal(torch.zeros(100), 1.0), torch.linspace(-3, 3, 100)
    wide, narrow = Metric(metrics.interval_coverage), Metric(metrics.interval_coverage, coverage=0.2)
    wide.options["coverage"] = 0.2
    assert wide(forecast, y) == narrow(forecast, y)


def test_intervals_and_functions_with_several_results() -> None:
    batches = [((MEAN[i] - 1, MEAN[i] + 1), TARGET[i]) for i in PARTS]
    covered = metrics.interval_coverage(TARGET, interval=(MEAN - 1, MEAN + 1))
    check(Metric(metrics.interval_coverage, argument="interval"), batches, covered)
    check(
        Metric(metrics.pit_histogram, n_bins=4),
        [((MEAN[i], SCALE[i]), TARGET[i]) for i in PARTS],
        metrics.pit_histogram(TARGET, mean=MEAN, scale=SCALE, n_bins=4),
    )
    check(
        Metric(metrics.brier_decomposition),
        [(PROBABILITIES[i], LABELS[i]) for i in PARTS],
        metrics.brier_decomposition(LABELS, PROBABILITIES),
    )


def test_a_tracker_takes_the_lowest() -> None:
    tracker = MetricTracker(Metric(metrics.brier_score))
    for probabilities in (P, Y.float(), 1 - P):
        tracker.increment()
        tracker.update(probabilities, Y)
    best, step = tracker.best_metric(return_step=True)
    assert (best, step) == (0, 1)
    assert Metric(metrics.interval_coverage).higher_is_better is None


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(ValueError, match="coverage"):
        Metric(metrics.crps, coverage=0.9)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated", "ignore:This property will be removed")
def test_a_module_that_owns_a_metric_can_be_scripted() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.metric = torch.nn.Linear(2, 2), Metric(metrics.expected_calibration_error)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    assert torch.jit.script(Net())(torch.ones(1, 2)).shape == (1, 2)
