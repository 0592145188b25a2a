import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from likely.metrics import expected_calibration_error
from likely.plots import ImportanceDisplay, IntervalDisplay, PITDisplay, ReliabilityDisplay
from likely.tabular import LikelihoodClassifier, LikelihoodRegressor


@pytest.fixture(autouse=True)
def closed():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def predictions(rows=400):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=rows)
    return rng.random(rows) < p**2, p


def drawn(display):
    display.figure_.canvas.draw()
    assert display.ax_.figure is display.figure_
    return display


def test_importing_loads_no_matplotlib():
    code = "import likely.plots, likely.metrics, sys; print(any(name.startswith('matplotlib') for name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "False"


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'likely\[plots\]'"):
        ReliabilityDisplay.from_predictions(*predictions())


@pytest.mark.parametrize("options", [{}, {"pos_label": 1}, {"strategy": "quantile", "n_bins": 5}])
def test_reliability_shows_the_bins_of_the_ece(options):
    y, p = predictions()
    display = drawn(ReliabilityDisplay.from_predictions(y, p, name="net", **options))
    assert display.ece == pytest.approx(expected_calibration_error(y, p, **options))
    line = display.ax_.lines[1]
    np.testing.assert_allclose(line.get_xydata(), np.stack([display.confidence, display.accuracy], 1))
    assert line.get_label() == f"net (ECE {display.ece:.3f})"
    (below,) = display.ax_.child_axes
    assert sum(bar.get_height() for bar in below.patches) == pytest.approx(1)


def test_two_models_share_the_axes():
    y, p = predictions()
    first = ReliabilityDisplay.from_predictions(y, p, name="one")
    second = drawn(ReliabilityDisplay.from_predictions(y, p**2, name="two", ax=first.ax_))
    assert second.ax_ is first.ax_
    assert len(first.ax_.child_axes) == 1
    assert len(first.ax_.lines) == 3  # the diagonal once
    assert [text.get_text()[:3] for text in first.ax_.get_legend().get_texts()] == ["one", "two"]


def test_reliability_of_an_estimator():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = LogisticRegression().fit(X, y)
    display = drawn(ReliabilityDisplay.from_estimator(model, X, y))
    assert display.ece == pytest.approx(expected_calibration_error(y == "yes", model.predict_proba(X)))
    assert display.ax_.lines[1].get_label().startswith("LogisticRegression")
    with pytest.raises(ValueError, match="not fitted with: maybe"):
        ReliabilityDisplay.from_estimator(model, X, np.where(X[:, 0] > 0, "yes", "maybe"))


def test_pit_of_the_truth_stays_in_its_band():
    y = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    display = drawn(PITDisplay.from_predictions(y, torch.distributions.Normal(torch.zeros(2000), torch.ones(2000))))
    band = display.ax_.patches[-1]
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert low < 1 < high
    assert ((low <= display.heights) & (display.heights <= high)).sum() >= 9
    narrow = drawn(PITDisplay.from_predictions(y, mean=np.zeros(2000), scale=np.full(2000, 0.5), n_bins=20, name="x"))
    assert narrow.heights[0] > 3 * narrow.heights[10]
    assert narrow.heights.mean() == pytest.approx(1)


def test_pit_with_weights():
    y = np.array([-1.0, 1.0])
    display = PITDisplay.from_predictions(y, mean=[0, 0], scale=1.0, n_bins=2, sample_weight=[3, 1])
    np.testing.assert_allclose(display.heights, [1.5, 0.5])


def test_pit_mistakes():
    with pytest.raises(ValueError, match="n_bins"):
        PITDisplay.from_predictions([0.0], mean=[0.0], scale=1.0, n_bins=0)


def intervals(rows=300):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=rows)
    return mean + rng.normal(size=rows), mean - 1, mean + 1, mean


def test_intervals_show_which_targets_they_hold_in_the_order_of_prediction():
    y, lower, upper, mean = intervals()
    display = drawn(IntervalDisplay.from_predictions(y, lower, upper, prediction=mean, coverage=0.68, name="net"))
    held = (lower <= y) & (y <= upper)
    assert display.ax_.get_title() == f"net: 68% intervals hold {held.mean():.1%} of 300 rows"
    band, inside, outside = display.ax_.collections
    order = np.argsort(mean)
    for points, chosen in ((inside, held), (outside, ~held)):
        np.testing.assert_allclose(points.get_offsets()[:, 1], y[order][chosen[order]])
    assert tuple(inside.get_facecolor()[0]) != tuple(outside.get_facecolor()[0])
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(lower.min())
    assert corners[:, 1].max() == pytest.approx(upper.max())


def test_of_many_rows_some_are_drawn_and_all_are_counted():
    y, lower, upper, _ = intervals(5000)
    display = drawn(IntervalDisplay.from_predictions(y, lower, upper, most=100))
    assert display.ax_.get_title() == f"Intervals hold {display.inside.mean():.1%} of 5,000 rows"
    assert sum(len(points.get_offsets()) for points in display.ax_.collections[1:]) == 100


def test_ends_at_infinity_leave_the_axes_finite():
    y, lower, upper, mean = intervals(50)
    lower[:10], upper[5:20] = -np.inf, np.inf
    display = drawn(IntervalDisplay.from_predictions(y, lower, upper, prediction=mean))
    assert np.abs(display.ax_.get_ylim()).max() < 10


def test_interval_mistakes():
    y, lower, upper, _ = intervals(4)
    with pytest.raises(ValueError, match=r"upper has shape \(3,\), expected \(4,\): one value per row"):
        IntervalDisplay.from_predictions(y, lower, upper[:3])
    with pytest.raises(ValueError, match="lower is above upper"):
        IntervalDisplay.from_predictions(y, upper, lower)
    with pytest.raises(ValueError, match="one target at a time"):
        IntervalDisplay.from_predictions(y[:, None], lower, upper)
    with pytest.raises(ValueError, match="most must be"):
        IntervalDisplay.from_predictions(y, lower, upper, most=0)


def test_importances_keep_the_longest_bars_and_order_them_by_the_mean():
    mean, scale = [0.1, 0.9, 0.2, 0.0], [0.1, 0.0, 0.0, 0.8]
    display = drawn(ImportanceDisplay(["a", "b", "c", "d" * 99], mean, scale).plot(most=3))
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["b", "c", "d" * 23 + "…"]
    assert [bar.get_width() for bar in display.ax_.patches] == [0.9, 0.2, 0.0, 0.0, 0.0, 0.8]
    assert display.ax_.get_ylabel() == "3 of 4 columns"
    with pytest.raises(ValueError, match=r"scale has shape \(2,\), expected \(3,\): one value per column"):
        ImportanceDisplay(["a", "b", "c"], [1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="most must be"):
        display.plot(most=0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, X[:, 0] + np.exp(X[:, 1] - 1) * rng.normal(size=120)


def test_displays_of_a_table_regressor(table):
    X, y = table
    model = LikelihoodRegressor("linear", scale="global", cv=2, random_state=0).fit(X[:60], y[:60])
    display = drawn(IntervalDisplay.from_estimator(model, X[60:], y[60:], coverage=0.8))
    lower, upper = model.predict_interval(X[60:], 0.8)
    assert display.inside.mean() == pytest.approx(((lower <= y[60:]) & (y[60:] <= upper)).mean())
    assert display.ax_.get_title().startswith("LikelihoodRegressor: 80% intervals hold")
    np.testing.assert_array_equal(display.prediction, model.predict(X[60:]))
    drawn(PITDisplay.from_predictions(y[60:], model.predict_dist(X[60:])))
    display = drawn(ImportanceDisplay.from_estimator(model))
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["x0", "x1"]
    np.testing.assert_array_equal(display.mean, model.importances().mean)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["mean", "scale"]


def test_displays_of_a_table_classifier(table):
    X, y = table
    labels = np.where(y > 0, "yes", "no")
    model = LikelihoodClassifier("linear", cv=2, random_state=0).fit(X[:60], labels[:60])
    display = drawn(ReliabilityDisplay.from_estimator(model, X[60:], labels[60:]))
    assert display.ece == pytest.approx(expected_calibration_error(labels[60:] == "yes", model.predict_proba(X[60:])))
    display = drawn(ImportanceDisplay.from_estimator(model, X[60:], most=1))
    assert len(display.ax_.get_yticklabels()) == 1
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["probabilities", "certainty"]
