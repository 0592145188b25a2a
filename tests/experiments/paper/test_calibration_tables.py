"""Tables 4 and 5 and Figure 12: what they say follows from their numbers, and they run from end to end."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.data import Logits
from experiments.entries import Context
from experiments.paper import classifier_calibration, miscalibration_by_size, regressor_calibration
from experiments.paper._comparison import Comparison, Difference, beside_paper, paired
from experiments.paper._regressors import Regressors, predict, train
from presentable import check_presentable


def made(measures: tuple[str, str], baseline: str, **methods: tuple[float, float]) -> Comparison:
    """Two sets on which each method has these means, with a little noise in common and less of its own."""
    rng = np.random.default_rng(0)
    scores = {}
    for name in ("one", "two"):
        common = rng.normal(size=(5, 1))
        scores[name] = {
            method: np.array(mean) + 0.1 * common + 1e-3 * rng.normal(size=(5, 2)) for method, mean in methods.items()
        }
    return Comparison(scores, measures, baseline, test_per_train=1, order=tuple(methods))


def test_paired_errors_allow_for_shared_rows() -> None:
    ours, theirs = np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4)
    alone = paired(ours, theirs, test_per_train=0)
    assert alone.mean == 1.5
    assert alone.error == pytest.approx(np.std(ours, ddof=1) / 2)
    assert paired(ours, theirs, test_per_train=1).error == pytest.approx(np.std(ours, ddof=1) * math.sqrt(1.25))


@pytest.mark.parametrize(
    ("mean", "error", "sign", "words"),
    [
        (-0.5, 0.2, -1, "−0.50 ± 0.20"),
        (0.5, 0.26, 0, "+0.50 ± 0.26"),
        (12.5, 1.04, 1, "+12.5 ± 1.0"),
        (-1e-6, 0.001, 0, "+0.0000 ± 0.0010"),
        (math.inf, math.inf, 1, "+∞ ± ∞"),
        (math.nan, math.nan, 0, "–"),
    ],
)
def test_a_difference_is_clear_beyond_two_errors(mean: float, error: float, sign: int, words: str) -> None:
    difference = Difference(mean, error)
    assert difference.sign == sign
    assert str(difference) == words


def test_comparison_knows_what_a_set_lacks() -> None:
    found = made(("ECE", "NLL"), "GS", GS=(0.1, 1.0), LS=(0.05, 0.9), VS=(0.1, math.nan))
    found.scores["two"].pop("LS")
    assert found.signs("LS", "GS", "ECE") == [-1]
    assert found.signs("VS", "GS", "NLL") == []
    assert found.methods == ["GS", "LS", "VS"]
    assert found.means("NLL", "set").columns.tolist() == ["GS", "LS"]
    assert found.against_baseline("NLL", "set", ["LS", "VS"]).loc["two"].tolist() == ["–"]
    assert found.records(["LS"], ["GS"]).loc["GS"].tolist() == ["1 – 0 – 0", "1 – 0 – 0"]
    counted = found.differences_and_records(["LS"], ["GS", "VS"])
    assert counted.columns.tolist() == [f"{m}, {w}" for m in ("ECE", "NLL") for w in ("mean difference", "record")]
    assert counted.loc[("LS", "GS"), "ECE, record"] == "1 – 0 – 0"
    assert counted.loc[("LS", "VS"), "NLL, mean difference"] == "–"
    assert beside_paper(found.means("ECE", "set"), {"one": {"GS": 0.2}}, "ECE").index.tolist() == [
        ("one", "here"),
        ("one", "paper"),
        ("two", "here"),
    ]


RIVALS = {"VS": (0.2, 2.0), "Platt": (0.2, 2.0), "Isotonic": (0.2, 2.0)}


@pytest.mark.parametrize(
    ("ls", "lfs", "better", "worse"),
    [
        ((0.1, 1.0), (0.1, 1.0), 16, 0),
        ((0.1, 1.0), (0.3, 3.0), 8, 8),
        ((0.2, 1.0), (0.2, 2.0), 0, 0),
        ((0.3, 3.0), (0.3, 3.0), 0, 16),
    ],
)
def test_clear_differences_of_classifiers_are_counted(ls, lfs, better: int, worse: int) -> None:
    found = made(("ECE", "NLL"), "GS", GS=(0.2, 2.0), LS=ls, LFS=lfs, **RIVALS)
    notes = classifier_calibration.describe(found, left_out=["big"])
    # Equal means differ by noise alone: at two standard errors some of it may count as clear, here none does.
    assert "Of 16 comparisons" in notes
    assert f"clearly better in {better} and clearly worse in {worse} by ECE" in notes
    assert "for their size: big." in notes


@pytest.mark.parametrize(
    ("ls", "ds", "isotonic", "good"),
    [
        ((0.1, 1.0), (0.3, 1.0), 0.2, (2, 2)),
        ((0.2, 1.0), (0.2, 1.0), 0.2, (0, 0)),
        ((0.15, 1.0), (0.3, 1.0), 0.12, (0, 2)),
        ((0.3, 1.0), (0.3, 1.0), 0.2, (0, 0)),
    ],
)
def test_clear_differences_of_regressors_are_counted(ls, ds, isotonic: float, good: tuple[int, int]) -> None:
    found = made(("CAL", "NLL"), "GS", GS=(0.2, 1.0), LS=ls, DS=ds, Isotonic=(isotonic, math.nan))
    notes = regressor_calibration.describe(found, missing=["cpu"])
    assert f"better than Isotonic on {good[0]} and than GS on {good[1]} of 2 sets" in notes
    assert "Mean CAL over the sets" in notes
    assert "Not in the data folder: cpu." in notes


def outputs(rows: int = 300, features: int | None = 3) -> Logits:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, rows)
    every = np.ones(rows, dtype=bool)
    logits = (4 * (np.eye(3)[labels] + rng.normal(size=(rows, 3)))).astype(np.float32)
    if features is None:
        return Logits("made", logits, labels, every)
    return Logits("made", logits, labels, every, rng.normal(size=(rows, features)).astype(np.float32), every)


def test_every_method_runs_and_methods_without_features_are_left_out() -> None:
    methods = [name for name in classifier_calibration.METHODS if name != "Auto"]
    found = classifier_calibration.judged(outputs(), methods, seed=0)
    assert list(found) == ["Uncalibrated", *methods]
    assert all(np.isfinite(pair).all() for pair in found.values())
    assert found["GS"][1] < found["Uncalibrated"][1]
    assert found == classifier_calibration.judged(outputs(), methods, seed=0) != {}
    bare = classifier_calibration.judged(outputs(features=None), methods, seed=0)
    assert set(found) - set(bare) == {"LFS", "plain LFS"}


@pytest.fixture
def one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of those kept with the package, which take longer."""
    monkeypatch.setattr(classifier_calibration.vision_classifiers, "networks", lambda: {"svhn_resnet50": outputs()})


@pytest.mark.usefixtures("one_network")
def test_classifier_calibration_without_data() -> None:
    told: list[float] = []
    result = classifier_calibration.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert told[-1] == 1.0
    assert len(told) == classifier_calibration.QUICK_SPLITS
    assert "Auto" not in result.tables[2].frame.columns
    assert result.tables[1].frame.index.tolist() == [("svhn_resnet50", "here"), ("svhn_resnet50", "paper")]
    assert "Temperatures that learn with the network" in result.notes
    assert result.bars[0].bar == 2


@pytest.mark.usefixtures("one_network")
def test_classifier_calibration_reads_every_file(tmp_path: Path) -> None:
    (tmp_path / "logits").mkdir()
    for name, width in (("svhn_resnet50", 4), ("cifar10_resnet50", 3), ("wide", 80)):
        made = outputs(200, width)
        arrays = {"logits": made.logits, "labels": made.labels, "is_val": np.arange(200) < 100}
        np.savez(tmp_path / "logits" / f"{name}.npz", **arrays, features=made.features)
    sources, left_out = classifier_calibration.networks(Context(quick=True, data=tmp_path))
    assert sources["svhn_resnet50"].features.shape[1] == 4, "what is in the folder comes before what is kept"
    assert left_out == ["wide"]
    result = classifier_calibration.run(Context(quick=True, data=tmp_path))
    check_presentable(result)
    paper = result.tables[1].frame
    assert paper.loc[("cifar10_resnet50", "paper"), "plain LS"] == 0.018
    assert "Left out of this quick run, for their size: wide." in result.notes


def test_the_networks_kept_are_four_of_the_papers() -> None:
    sources, left_out = classifier_calibration.networks(Context(quick=True))
    assert set(sources) == {
        f"{images}_{body}" for images in ("cifar10", "svhn") for body in ("resnet50", "densenet121")
    }
    assert left_out == []
    for outputs in sources.values():
        assert np.isfinite(outputs.logits).all()
        assert outputs.features.shape == (len(outputs.labels), 64)
        overconfident = (
            torch.softmax(torch.from_numpy(outputs.logits), 1).amax(1).mean()
            - (outputs.logits.argmax(1) == outputs.labels).mean()
        )
        assert overconfident > 0.2


SHORT = regressor_calibration.Effort(2, 50, 1e-2, 160)


def test_regressor_calibration_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regressor_calibration, "QUICK", SHORT)
    result = regressor_calibration.run(Context(quick=True))
    check_presentable(result)
    cal, nll = result.tables[1].frame, result.tables[2].frame
    assert cal.index.tolist() == [("synthetic", "here"), ("diabetes", "here")]
    assert cal.columns.tolist()[:5] == ["Uncalibrated", "Isotonic", "GS", "LS", "DS"]
    assert "Isotonic" not in nll.columns
    assert np.isfinite(cal.to_numpy(float)).all()
    assert np.isfinite(nll.to_numpy(float)).all()


def test_regressor_calibration_imputes_and_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regressor_calibration, "QUICK", SHORT)
    (tmp_path / "regression").mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    y = X[:, 0] + rng.normal(size=160)
    X[::7, 1], X[:, 2] = np.nan, 1.0
    np.savez(tmp_path / "regression" / "crime.npz", X=X, y=y)
    result = regressor_calibration.run(Context(quick=True, data=tmp_path))
    assert result.tables[1].frame.loc[("crime", "paper"), "DS"] == 0.031
    assert "Not in the data folder: kinematics, bank, wine, mpg, cpu, soil, fried." in result.notes


def test_the_parts_of_a_split_share_no_row() -> None:
    data = regressor_calibration.diabetes()
    for fit, test in regressor_calibration.forecasts(data, SHORT, seed=0):
        assert (len(fit.y), len(test.y)) == (40, 40)
        assert not {tuple(row) for row in fit.x} & {tuple(row) for row in test.x}


def test_kuleshov_calibrates_a_wrong_scale() -> None:
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(2):
        zeros = np.zeros(3000)
        parts.append(regressor_calibration.Part(zeros[:, None], rng.normal(size=3000), zeros, zeros + 4))
    assert regressor_calibration.kuleshov(*parts) < 0.005


def test_copies_of_a_network_learn_apart() -> None:
    x, y = torch.randn(2, 60, 3), torch.randn(2, 60)
    both = train(Regressors(2, 3, 4, predicted=True, generator=torch.Generator().manual_seed(0)), x, y, 20)
    moved = torch.stack([x[0], x[1] + 1])
    again = train(Regressors(2, 3, 4, predicted=True, generator=torch.Generator().manual_seed(0)), moved, y, 20)
    first, other = predict(both, x), predict(again, x)
    torch.testing.assert_close(first[0][0], other[0][0])
    assert (first[0][1] != other[0][1]).any()
    assert (first[1] > miscalibration_by_size.FLOOR).all()


def widths(cal: list[float], over: float = 3.0) -> np.ndarray:
    """(widths, seeds, measures) with this CAL at each width."""
    noise = 1e-3 * np.random.default_rng(0).normal(size=(len(cal), 5, 4))
    return np.stack([np.full((5, 4), [c, over, 0.01, 0.5]) for c in cal]) + noise


@pytest.mark.parametrize(
    ("one", "predicted", "ends"),
    [
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], False),
        ([0.1, 0.4, 0.3], [0.1, 0.2, 0.3], True),
        ([0.3, 0.2, 0.1], [0.3, 0.2, 0.1], False),
    ],
)
def test_miscalibration_says_where_its_growth_ends(one, predicted, ends: bool) -> None:
    found = {"one scale": widths(one), "predicted scale": widths(predicted)}
    notes = miscalibration_by_size.describe(found, (2, 8, 32))
    assert ("from width 8 to 32 CAL falls again" in notes) == ends


def test_miscalibration_runs_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miscalibration_by_size, "QUICK", miscalibration_by_size.Effort(2, (2, 16), 80, 2e-2))
    told: list[float] = []
    results = [miscalibration_by_size.run(Context(quick=True, seed=3, progress=told.append)) for _ in range(2)]
    check_presentable(results[0])
    assert told[3] == 1.0
    assert results[0].notes == results[1].notes
    table = results[0].tables[0].frame
    assert table.index.tolist() == [(kind, width) for kind in miscalibration_by_size.KINDS for width in ("2", "16")]
    wide = table.xs("16", level="width")
    assert (wide["RMSE, training rows"] < wide["RMSE, test rows"]).all()
