"""Metrics of rows in blocks are those of all rows, in whichever order the blocks come."""

import copy
import inspect
import itertools
import pickle
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import torch

from likely import metrics
from likely.metrics import Running
from metrics.examples import forecasts, three_classes, two_classes
from pairwise import together

CLASSIFICATION = [
    (metrics.expected_calibration_error, {}),
    (metrics.expected_calibration_error, {"n_bins": 4, "norm": "l2", "debiased": True}),
    (metrics.expected_calibration_error, {"debiased": True, "pos_label": 1}),
    (metrics.maximum_calibration_error, {}),
    (metrics.classwise_calibration_error, {}),
    (metrics.classwise_calibration_error, {"average": None, "debiased": True}),
    (metrics.brier_score, {}),
    (metrics.brier_decomposition, {}),
    (metrics.brier_decomposition, {"scale_by_half": True, "n_bins": 3}),
    (metrics.negative_log_likelihood, {}),
    (metrics.smooth_calibration_error, {}),
    (metrics.smooth_calibration_error, {"bandwidth": 0.05, "pos_label": 0}),
]
REGRESSION = [
    (metrics.negative_log_likelihood, {}),
    (metrics.crps, {}),
    (metrics.pit_histogram, {}),
    (metrics.quantile_calibration_error, {}),
    (metrics.quantile_calibration_error, {"levels": [0.25, 0.5, 0.9]}),
    (metrics.interval_coverage, {"coverage": 0.5}),
    (metrics.interval_score, {"coverage": 0.8}),
    (metrics.interval_width, {}),
    (metrics.sharpness, {}),
]
same = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def pieces(count, rows):
    """As many groups of rows, of different sizes, in an order of their own."""
    ends = (np.linspace(0, 1, count + 1) ** 1.5 * rows).astype(int)
    groups = [np.arange(start, stop) for start, stop in itertools.pairwise(ends)]
    return [groups[k] for k in np.random.default_rng(count).permutation(count)]


def in_blocks(array, count):
    return da.from_array(array, chunks=(-(-len(array) // count), *array.shape[1:]))


def weights(rows, kind):
    if kind == "none":
        return None
    weight = np.random.default_rng(0).exponential(size=rows) * 10.0 ** (300 if kind == "huge" else 0)
    weight[: rows // 10] = 0
    return weight


def agree(metric, options, arguments, count):
    """By Dask, by one stream, and by merging streams."""
    whole = metric(**arguments, **options)
    given = {name: value for name, value in arguments.items() if value is not None}
    same(metric(**{name: in_blocks(np.asarray(value), count) for name, value in given.items()}, **options), whole)
    stream, parts = Running(metric, **options), []
    for rows in pieces(count, len(next(iter(given.values())))):
        block = {name: value[rows] for name, value in given.items()}
        stream.update(**block)
        parts.append(pickle.loads(pickle.dumps(Running(metric, **options).update(**block))))
    same(stream.result(), whole)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    same(total.result(), whole)
    same(copy.copy(parts[-1]).merge(Running(metric, **options)).result(), parts[-1].result())


@together("kind", ["none", "any", "huge"])
@together("count", [1, 3, 17])
@together(("metric", "options"), CLASSIFICATION)
def test_classes(metric, options, count, kind):
    y, p = three_classes()
    agree(
        metric,
        options,
        {"y_true": y, "y_prob" if "y_prob" in _names(metric) else "y_pred": p, "sample_weight": weights(len(y), kind)},
        count,
    )


@together("kind", ["none", "any"])
@together("count", [1, 3, 17])
@together(("metric", "options"), REGRESSION)
def test_numbers(metric, options, count, kind):
    y, mean, scale = forecasts()
    rows = {"y_true": y, "mean": mean, "scale": scale, "sample_weight": weights(len(y), kind)}
    agree(metric, options, {name: rows[name] for name in rows if name in _names(metric)}, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_precision(dtype):
    y, p = two_classes()
    for metric, options in CLASSIFICATION:
        if options.get("pos_label") != 0:
            prediction = "y_prob" if "y_prob" in _names(metric) else "y_pred"
            agree(metric, options, {"y_true": y, prediction: p.astype(dtype)}, 5)


def test_logits_samples_quantiles_intervals_and_several_targets():
    y, mean, scale = forecasts()
    samples = np.sort(mean[:, None] + scale[:, None] * np.linspace(-2, 2, 9), 1)
    agree(metrics.crps_from_samples, {"fair": True}, {"y_true": y, "samples": samples}, 3)
    levels = {"levels": np.linspace(0.1, 0.9, 9)}
    agree(metrics.crps_from_quantiles, levels, {"y_true": y, "quantiles": samples}, 3)
    labels, p = three_classes()
    agree(metrics.negative_log_likelihood, {}, {"y_true": labels, "logits": np.log(p)}, 3)
    both = {"y_true": np.stack([y, -y], 1), "mean": np.stack([mean, mean], 1), "scale": np.stack([scale, scale], 1)}
    for metric in (metrics.crps, metrics.pit_histogram, metrics.quantile_calibration_error):
        agree(metric, {}, both, 3)
    ends = in_blocks(mean - scale, 3), in_blocks(mean + scale, 3)
    same(
        metrics.interval_coverage(y, interval=ends), metrics.interval_coverage(y, interval=(mean - scale, mean + scale))
    )
    same(metrics.crps(in_blocks(y, 3), mean=mean, scale=0.7), metrics.crps(y, mean=mean, scale=np.full(50, 0.7)))


def test_rows_stay_in_blocks():
    y, mean, scale = forecasts()
    lazy = [in_blocks(each, 4) for each in (y, mean, scale)]
    for metric, options in [(metrics.crps, {"reduction": "none"}), (metrics.pit_values, {})]:
        found = metric(lazy[0], mean=lazy[1], scale=lazy[2], **options)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), metric(y, mean=mean, scale=scale, **options))


def test_frames():
    import dask.dataframe as dd
    import pandas as pd

    y, p = three_classes()
    frame = pd.DataFrame(p, columns=["a", "b", "c"]).assign(y=y)
    table = dd.from_pandas(frame, npartitions=4)
    same(metrics.brier_score(table["y"], table[["a", "b", "c"]]), metrics.brier_score(y, p))


def test_files(tmp_path, monkeypatch):
    import pandas as pd

    y, p = three_classes()
    frame = pd.DataFrame(p, columns=["a", "b", "c"]).assign(label=y, weight=weights(len(y), "any"))
    for number, rows in enumerate(np.array_split(np.arange(len(y)), 4)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet", index=False)
    frame[["label"]].to_csv(tmp_path / "labels.csv", index=False)
    monkeypatch.chdir(tmp_path)
    known = metrics.expected_calibration_error(y, p, sample_weight=frame["weight"])
    parts = sorted(tmp_path.glob("*.parquet"))
    for table in (
        "*.parquet",
        str(tmp_path / "*.parquet"),
        tmp_path / "*.parquet",
        parts,
        [str(part) for part in parts],
    ):
        same(metrics.expected_calibration_error("label", table, sample_weight="weight"), known)
    stream = Running(metrics.brier_score)
    for part in parts:
        stream.update("label", part, sample_weight="weight")
    same(stream.result(), metrics.brier_score(y, p, sample_weight=frame["weight"]))
    frame[["a", "b", "c"]].to_parquet("probabilities.parquet")
    for labels in ("labels.csv", tmp_path / "labels.csv", y):
        same(metrics.brier_score(labels, "probabilities.parquet"), metrics.brier_score(y, p))
    with pytest.raises(ValueError, match="y_true='truth': there is no column 'truth': there are a, b, c"):
        metrics.brier_score("truth", "probabilities.parquet")
    with pytest.raises(FileNotFoundError, match="nothing/here does not exist"):
        metrics.brier_score("label", "nothing/here")


def test_columns_of_forecasts(tmp_path):
    import dask.dataframe as dd
    import pandas as pd

    y, mean, scale = forecasts()
    quantiles = np.sort(mean[:, None] + scale[:, None] * np.linspace(-1, 1, 3), 1)
    frame = pd.DataFrame(quantiles, columns=["low", "middle", "high"]).assign(y=y, mean=mean, scale=scale)
    levels = {"levels": [0.2, 0.5, 0.8]}
    known = metrics.crps_from_quantiles(y, quantiles, **levels)
    ends = quantiles[:, 0], quantiles[:, 2]
    file = tmp_path / "forecasts.parquet"

    def tables(*columns):
        frame[list(columns)].to_parquet(file, index=False, row_group_size=7)
        return file, dd.from_pandas(frame[list(columns)], npartitions=3)

    for table in tables("y", "mean", "scale"):
        same(metrics.crps(table, mean="mean", scale="scale"), metrics.crps(y, mean=mean, scale=scale))
        rows = metrics.crps(table, mean="mean", scale="scale", reduction="none")
        same(np.asarray(rows), metrics.crps(y, mean=mean, scale=scale, reduction="none"))
    for table in tables("y", "low", "high"):
        same(metrics.interval_coverage(table, interval=("low", "high")), metrics.interval_coverage(y, interval=ends))
    for table in tables("y", "low", "middle", "high"):
        same(metrics.crps_from_quantiles("y", table, **levels), known)
        same(metrics.crps_from_quantiles(table, ["low", "middle", "high"], **levels), known)


def test_distributions_one_block_at_a_time():
    y, mean, scale = forecasts()
    stream, counts = Running(metrics.crps), Running(metrics.pit_histogram, n_bins=5)
    rate = torch.from_numpy(np.exp(mean))
    events = np.abs(y).round()
    for rows in pieces(3, len(y)):
        stream.update(
            y[rows], torch.distributions.StudentT(3.0, torch.from_numpy(mean[rows]), torch.from_numpy(scale[rows]))
        )
        counts.update(events[rows], torch.distributions.Poisson(rate[rows]))
    same(
        stream.result(),
        metrics.crps(y, torch.distributions.StudentT(3.0, torch.from_numpy(mean), torch.from_numpy(scale))),
    )
    same(counts.result(), metrics.pit_histogram(events, torch.distributions.Poisson(rate), n_bins=5))
    assert counts.result().sum() == pytest.approx(1)


def test_a_true_count_model_has_a_flat_histogram():
    random = np.random.default_rng(0)
    rate = torch.from_numpy(random.uniform(0.5, 5, size=20_000))
    found = metrics.pit_histogram(random.poisson(rate), torch.distributions.Poisson(rate))
    np.testing.assert_allclose(found, 0.1, atol=0.01)
    far = metrics.pit_histogram([1000], torch.distributions.Poisson(torch.tensor([1.0])))
    np.testing.assert_array_equal(far, np.eye(10)[9])


def test_what_needs_all_rows_says_so():
    y, p = three_classes()
    lazy = in_blocks(y, 3), in_blocks(p, 3)
    with pytest.raises(ValueError, match="bins of equal weight need all rows at once: pass strategy='uniform'"):
        metrics.expected_calibration_error(*lazy, strategy="quantile")
    with pytest.raises(TypeError, match="calibration_refinement needs all rows at once"):
        metrics.calibration_refinement(*lazy)
    with pytest.raises(TypeError, match="miscalibration_area needs all rows at once"):
        Running(metrics.miscalibration_area)
    with pytest.raises(TypeError, match="give mean= and scale=, or use Running"):
        metrics.crps(in_blocks(y, 3), torch.distributions.Normal(torch.zeros(len(y)), 1.0))
    with pytest.raises(TypeError, match="pit_histogram needs no draws"):
        Running(metrics.quantile_calibration_error).update([1, 2], torch.distributions.Poisson(torch.ones(2)))
    with pytest.raises(ValueError, match="samples must have as many rows as the table"):
        metrics.crps_from_samples(in_blocks(np.zeros(6), 2), in_blocks(np.zeros((4, 6)), 2))


def test_mistakes_with_running():
    stream = Running(metrics.expected_calibration_error)
    with pytest.raises(ValueError, match="call update first"):
        stream.result()
    stream.update([1, 0], [0.5, 0.5])
    before = stream.result()
    with pytest.raises(ValueError, match="blocks differ in their classes: 2 and 3"):
        stream.update([1], [[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="blocks differ in their precision"):
        stream.update([1], np.array([0.5], np.float32))
    with pytest.raises(ValueError, match="y_prob holds NaN"):
        stream.update([1], [np.nan])
    with pytest.raises(TypeError, match="'n_bins' is the same for all rows"):
        stream.update([1], [0.5], n_bins=3)
    with pytest.raises(TypeError, match="'bins' is not an option of expected_calibration_error"):
        Running(metrics.expected_calibration_error, bins=3)
    with pytest.raises(TypeError, match="not a metric"):
        Running(np.mean)
    with pytest.raises(ValueError, match="reduction='none'"):
        Running(metrics.brier_score, reduction="none")
    with pytest.raises(ValueError, match="not the same metric"):
        stream.merge(Running(metrics.expected_calibration_error, n_bins=3))
    assert stream.update([], []).update([1], [0.2], sample_weight=[0.0]).result() == before


def _names(metric):
    return inspect.signature(metric).parameters
