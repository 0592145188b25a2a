"""`likely calibrate` and `likely predict`: from a file of outputs to a model in JSON, and with it to probabilities."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner, Result

from likely import calibration, cli
from likely.metrics import expected_calibration_error, negative_log_likelihood
from pairwise import together

N, C, D = 300, 3, 4


def likely_command(*words: object) -> Result:
    return CliRunner().invoke(cli.build(), [str(word) for word in words])


def about(model: Path) -> dict[str, Any]:
    """What the command stored in the model about the fit."""
    return json.loads(model.read_text())["about"]


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels, features = rng.integers(0, C, N), rng.normal(size=(N, D))
    logits = 8 * np.eye(C)[labels] + 5 * np.exp(0.5 * features[:, :1]) * rng.normal(size=(N, C))
    return {"logits": logits.astype(np.float32), "labels": labels.astype(np.uint8), "features": features}


@pytest.fixture
def forecasts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    features, mean = rng.normal(size=(N, D)), rng.normal(size=N)
    scale = np.exp(0.2 * rng.normal(size=N))
    return {"mean": mean, "scale": scale, "target": mean + 3 * scale * rng.standard_t(5, size=N), "features": features}


@pytest.fixture
def outputs(arrays: dict[str, np.ndarray], tmp_path: Path) -> Path:
    np.savez(tmp_path / "outputs.npz", **arrays)
    return tmp_path / "outputs.npz"


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_calibrate_says_what_it_found_and_predict_uses_it(
    outputs: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    model = tmp_path / "model.json"
    done = likely_command("calibrate", outputs, "--method", "vector+feature", "--out", model)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "outputs.npz: 300 rows, 3 classes, 4 features"
    assert lines[1] == "method: vector+feature"
    scores = {line[:18].strip(): [float(cell) for cell in line[18:].split()] for line in lines[4:7]}
    nll, ece = (
        negative_log_likelihood(arrays["labels"], logits=arrays["logits"]),
        expected_calibration_error(arrays["labels"], softmax(arrays["logits"].astype(float))),
    )
    assert scores["NLL"][0] == pytest.approx(nll, abs=1e-4)
    assert scores["ECE"][0] == pytest.approx(ece, abs=1e-4)
    assert scores["NLL"][1] < scores["NLL"][0]
    assert scores["accuracy"][0] == pytest.approx((arrays["logits"].argmax(1) == arrays["labels"]).mean(), abs=1e-4)
    assert lines[7] == "Cross-validated: each row is scored by a fit to the other 4 of 5 folds."
    assert "NLL: negative log-likelihood, less is better" in lines
    assert "ECE: expected calibration error, less is better" in lines
    assert lines[-1] == str(model)

    done = likely_command("predict", model, outputs, "--out", tmp_path / "p.npz")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "p.npz")
    loaded = calibration.load(model)
    expected = loaded.predict_proba(arrays["logits"], arrays["features"])
    with np.load(tmp_path / "p.npz") as found:
        assert np.array_equal(found["probabilities"], expected)
        assert np.array_equal(found["predicted"], expected.argmax(1))
    likely_command("predict", model, outputs, "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["predicted", "probability_0", "probability_1", "probability_2"]
    np.testing.assert_allclose(table.iloc[:, 1:], expected, rtol=1e-6)
    assert not list(tmp_path.glob("*.partial"))


def test_the_scores_are_of_rows_left_out(tmp_path: Path) -> None:
    """Features without meaning: a fit that memorises its rows must not look good."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, C, 200)
    logits, features = 2 * np.eye(C)[labels] + rng.normal(size=(200, C)), rng.normal(size=(200, 60))
    np.savez(tmp_path / "o.npz", logits=logits, labels=labels, features=features)
    likely_command("calibrate", tmp_path / "o.npz", "--method", "isotonic", "--out", tmp_path / "m.json")
    scores = about(tmp_path / "m.json")
    fitted = calibration.load(tmp_path / "m.json")
    own = negative_log_likelihood(labels, fitted.predict_proba(logits))
    assert scores["after"]["NLL"] > own + 0.01
    honest = []
    from sklearn.model_selection import KFold

    for kept, out in KFold(5, shuffle=True, random_state=0).split(logits):
        part = calibration.IsotonicCalibration().fit(logits[kept], labels[kept])
        honest.append(negative_log_likelihood(labels[out], part.predict_proba(logits[out]), reduction="none"))
    assert scores["after"]["NLL"] == pytest.approx(np.concatenate(honest).mean(), rel=1e-9)


def test_the_same_seed_gives_the_same_scores_which_are_kept_in_the_model(outputs: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    words = ("calibrate", outputs, "--method", "global", "--out", model, "--random-state")
    first, scores = likely_command(*words, 3), about(model)
    assert first.stdout == likely_command(*words, 3).stdout
    assert scores == about(model)
    assert (scores["rows"], scores["classes"], scores["features"], scores["random_state"]) == (N, C, D, 3)
    assert scores["before"]["NLL"] - scores["after"]["NLL"] == pytest.approx(scores["gain"]["NLL"])
    assert scores["gain"]["error"] > 0
    assert "The NLL falls by" in first.stdout
    likely_command(*words, 4)
    assert about(model)["after"]["NLL"] != scores["after"]["NLL"]


def test_auto_names_what_it_chose(outputs: Path, tmp_path: Path) -> None:
    words = ("calibrate", outputs, "--out", tmp_path / "m.json", "--cv", 0)
    done = likely_command(*words)
    assert done.exit_code == 0, done.stderr
    members = list(calibration.load(tmp_path / "m.json").members_)
    assert done.stdout.splitlines()[1] == f"method: auto, which chose {'; '.join(members)}"
    assert "before" not in done.stdout


@pytest.mark.parametrize("kind", ["csv", "parquet", "lists", "renamed"])
def test_every_kind_of_file_gives_the_same_model(
    kind: str, outputs: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    frame = pd.DataFrame({"label": arrays["labels"]})
    for name in ("logits", "features"):
        for k in reversed(range(arrays[name].shape[1])):
            frame[f"{name.removesuffix('s')}_{k}"] = arrays[name][:, k].astype(np.float64)
    words: list[object] = []
    if kind == "csv":
        frame.to_csv(tmp_path / "o.csv", index=False)
        words = [tmp_path / "o.csv"]
    elif kind == "parquet":
        frame.rename(columns=lambda name: name.replace("feature_", "h")).to_parquet(tmp_path / "o.parquet")
        words = [tmp_path / "o.parquet", "--features", "h0,h1,h2,h3"]
    elif kind == "lists":
        lists = {"logits": list(arrays["logits"].astype(float)), "features": list(arrays["features"])}
        pd.DataFrame({**lists, "labels": arrays["labels"]}).to_parquet(tmp_path / "o.parquet")
        words = [tmp_path / "o.parquet"]
    else:
        renamed = {f"val_{name}": array.astype(np.float64) for name, array in arrays.items()}
        np.savez(tmp_path / "o.npz", **renamed, other=np.zeros(7))
        words = [tmp_path / "o.npz"]
        for name in arrays:
            words += [f"--{name}", f"val_{name}"]
    done = likely_command("calibrate", *words, "--method", "feature", "--cv", 0, "--out", tmp_path / "m.json")
    assert done.exit_code == 0, done.stderr
    fitted = calibration.FeatureTemperature().fit(
        arrays["logits"].astype(np.float64), arrays["labels"], arrays["features"]
    )
    loaded = calibration.load(tmp_path / "m.json")
    np.testing.assert_allclose(loaded.solution_.coef, fitted.solution_.coef, rtol=1e-6)


def test_probabilities_are_taken_for_what_they_are(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    probabilities = softmax(arrays["logits"].astype(np.float64))
    np.savez(tmp_path / "p.npz", probabilities=probabilities, labels=arrays["labels"])
    np.savez(tmp_path / "l.npz", logits=arrays["logits"], labels=arrays["labels"])
    np.savez(tmp_path / "named.npz", logits=probabilities, labels=arrays["labels"])
    for name in ("p.npz", "named.npz"):
        done = likely_command("calibrate", tmp_path / name, "--method", "global", "--out", tmp_path / "m.json")
        assert done.exit_code == 0, done.stderr
        assert calibration.load(tmp_path / "m.json").inputs == "probabilities"
    done = likely_command("predict", tmp_path / "m.json", tmp_path / "l.npz", "--out", tmp_path / "out.npz")
    assert done.exit_code == 2
    assert "m.json was fitted to probabilities, and l.npz has logits" in done.stderr
    done = likely_command("predict", tmp_path / "m.json", tmp_path / "p.npz", "--out", tmp_path / "out.npz")
    assert done.exit_code == 0, done.stderr
    by_logits = calibration.GlobalTemperature().fit(np.log(probabilities), arrays["labels"])
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["probabilities"], by_logits.predict_proba(np.log(probabilities)), atol=1e-6)


@pytest.mark.parametrize("method", ["global", "linear", "linear+isotonic"])
@pytest.mark.parametrize("own_scale", [True, False])
def test_regressors(method: str, own_scale: bool, forecasts: dict[str, np.ndarray], tmp_path: Path) -> None:
    if not own_scale:
        del forecasts["scale"]
    np.savez(tmp_path / "o.npz", **forecasts)
    done = likely_command("calibrate", tmp_path / "o.npz", "--method", method, "--out", tmp_path / "m.json")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "o.npz: 300 rows, 4 features"
    scores = {line[:18].strip(): line[18:].split() for line in lines[4:7]}
    assert list(scores) == ["NLL", "CAL", "in 90% interval"]
    before, after = scores["in 90% interval"]
    assert float(after) == pytest.approx(0.9, abs=0.06)
    assert float(before) < 0.5 if own_scale else before == "–"
    words = ("predict", tmp_path / "m.json", tmp_path / "o.npz", "--coverage", 0.8)
    done = likely_command(*words, "--out", tmp_path / "f.npz")
    assert done.stdout.splitlines()[1].endswith(", with 80% intervals")
    assert likely_command(*words, "--out", tmp_path / "f.csv").exit_code == 0
    loaded = calibration.load(tmp_path / "m.json")
    rows = (forecasts["mean"], forecasts.get("scale"), forecasts["features"])
    with np.load(tmp_path / "f.npz") as found:
        assert np.array_equal(found["scale"], loaded.predict_scale(*rows))
        assert np.array_equal([found["lower"], found["upper"]], loaded.predict_interval(*rows, coverage=0.8))
    table = pd.read_csv(tmp_path / "f.csv")
    assert list(table.columns) == ["mean", "scale", "lower", "upper"]


def test_a_laplace_regressor_is_judged_as_one(forecasts: dict[str, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", **forecasts)
    words = ("calibrate", tmp_path / "o.npz", "--method", "global", "--out", tmp_path / "m.json")
    assert likely_command(*words, "--likelihood", "laplace").exit_code == 0
    mean, scale, y = (forecasts[name] for name in ("mean", "scale", "target"))
    assert about(tmp_path / "m.json")["before"]["NLL"] == pytest.approx(
        (np.abs(y - mean) / scale + np.log(2 * scale)).mean()
    )
    assert calibration.load(tmp_path / "m.json").likelihood == "laplace"


def labelled(**changes: object) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(60) % C
    found = {"logits": 3 * np.eye(C)[labels] + rng.normal(size=(60, C)), "labels": labels, **changes}
    return {name: np.asarray(array) for name, array in found.items() if array is not None}


BAD = {
    "holds labels (60); name yours by --logits": labelled(logits=None),
    "has no labels: it holds logits (60 × 3); name yours by --labels": labelled(labels=None),
    "labels are 59, but logits 60 × 3": labelled(labels=np.zeros(59)),
    "features are 61 × 2, but logits 60 × 3": labelled(features=np.zeros((61, 2))),
    "y holds classes 0 to 3, but the logits have classes 0 to 2": labelled(labels=np.arange(60) % 4),
    "y holds classes -1 to 2": labelled(labels=np.arange(60) % 4 - 1),
    "row 1 holds 0.5": labelled(labels=np.r_[0, 0.5, np.ones(58)]),
    "y must hold class numbers 0, 1, …, and row 0 holds nan": labelled(labels=np.r_[np.nan, np.ones(59)]),
    "labels must be numbers, one entry per row; found <U3 of 60, such as": labelled(labels=["cat"] * 60),
    "all 60 labels are 1: calibration needs": labelled(labels=np.ones(60, int)),
    "logits have one number per row; for two classes give two columns": labelled(logits=np.zeros(60)),
    "logits must be rows × classes, found 60 × 3 × 2": labelled(logits=np.zeros((60, 3, 2))),
    "y must hold one label per row, shape (60,); got (60, 2)": labelled(labels=np.arange(120).reshape(60, 2)),
    "logits must be numbers, one entry per row; found int64 of one number": labelled(logits=5),
    "there are 0 rows": labelled(logits=np.zeros((0, 3)), labels=np.zeros(0)),
    "there are 6 rows, and 5 folds need 10": labelled(logits=np.eye(3)[[0, 1, 2] * 2] * 4, labels=[0, 1, 2] * 2),
    "logits hold NaN or +∞": labelled(logits=np.full((60, 3), np.nan)),
    "features hold NaN or infinities": labelled(features=np.full((60, 2), np.nan)),
    "has logits and means: name those to calibrate, by --logits or --mean": labelled(
        mean=np.zeros(60), target=np.zeros(60)
    ),
    "is not read: it holds pickled objects": labelled(labels=np.array([{}] * 60)),
}


@together("message", BAD)
def test_bad_input_is_refused_in_one_line(message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", **BAD[message])
    done = likely_command("calibrate", tmp_path / "o.npz", "--method", "linear", "--out", tmp_path / "m.json")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("likely: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "m.json").exists()


def test_labels_that_are_whole_floats_are_fine(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", **labelled(labels=(np.arange(60) % C).astype(float)))
    done = likely_command("calibrate", tmp_path / "o.npz", "--method", "global", "--out", tmp_path / "m.json")
    assert done.exit_code == 0, done.stderr


def test_labels_that_are_texts_name_the_columns_as_in_a_table_of_scikit_learns_predictions(tmp_path: Path) -> None:
    flowers = load_iris()
    names = flowers.target_names[flowers.target]
    model = LogisticRegression(C=100, max_iter=1000)
    proba = cross_val_predict(model, flowers.data, names, method="predict_proba")
    table = pd.DataFrame(proba, columns=np.unique(names)).assign(label=names)
    by_number = pd.DataFrame(proba).add_prefix("probability_").assign(label=flowers.target)
    table.to_csv(tmp_path / "names.csv", index=False)
    table.iloc[50:].to_csv(tmp_path / "two.csv", index=False)  # without a setosa
    by_number.to_csv(tmp_path / "numbers.csv", index=False)
    by_number.assign(label=names).to_csv(tmp_path / "sorted.csv", index=False)
    nll = []
    for file in ("names", "numbers", "sorted"):
        likely_command("calibrate", tmp_path / f"{file}.csv", "--method", "global", "--out", tmp_path / f"{file}.json")
        nll.append(about(tmp_path / f"{file}.json")["after"]["NLL"])
    assert nll == [nll[1]] * 3, "labels in words give another calibrator than their numbers"
    likely_command("predict", tmp_path / "names.json", tmp_path / "names.csv", "--out", tmp_path / "out.csv")
    written = pd.read_csv(tmp_path / "out.csv")
    assert list(written) == ["predicted", *(f"probability_{name}" for name in np.unique(names))]
    assert (written["predicted"] == names).mean() > 0.9
    refused = likely_command("calibrate", tmp_path / "two.csv", "--out", tmp_path / "two.json")
    assert "versicolor, virginica do not sum to one: list all classes by --logits" in refused.stderr
    listed = ",".join(np.unique(names))
    likely_command("calibrate", tmp_path / "two.csv", "--logits", listed, "--out", tmp_path / "two.json")
    assert about(tmp_path / "two.json")["classes"] == 3


def test_files_that_are_no_outputs(tmp_path: Path) -> None:
    for name, content in (("o.npz", b""), ("o.csv", b""), ("bad.npz", b"not an archive"), ("o.xyz", b"1")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "gap.csv").write_text("label,logit_0,logit_2\n0,1,2\n")
    (tmp_path / "text.csv").write_text("label,logit_0,logit_1\n0,1,a\n1,2,b\n")
    for name, message in {
        "nowhere.npz": "does not exist",
        "o.npz": "is not read",
        "o.csv": "is empty",
        "bad.npz": "is not read",
        "o.xyz": "its name should end in",
        "gap.csv": "numbered 0, 2: one is missing",
        "text.csv": "logits must be numbers, one entry per row; found object of",
    }.items():
        done = likely_command("calibrate", tmp_path / name, "--out", tmp_path / "m.json")
        assert done.exit_code == 2
        assert message in done.stderr, name
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "magic"], "--method for classification must be one of auto, global"),
        (
            ["--method", "feature"],
            "FeatureTemperature needs features, the input of the network's last layer: name them by --features",
        ),
        (["--cv", "1"], "--cv must be 0, or 2 or more"),
        (["--labels", "truth"], "has no 'truth' for --labels: it holds logits (60 × 3), labels (60)"),
        (["--mean", "logits", "--labels", "labels"], "--labels is for classifiers and --mean for regressors"),
        (["--out", "nowhere/m.json"], "the folder nowhere of --out does not exist"),
    ],
)
def test_bad_options(words: list[str], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", **labelled())
    done = likely_command("calibrate", tmp_path / "o.npz", "--out", tmp_path / "m.json", *words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_predict_refuses_what_the_model_was_not_fitted_to(
    outputs: Path, arrays: dict[str, np.ndarray], forecasts: dict[str, np.ndarray], tmp_path: Path
) -> None:
    likely_command("calibrate", outputs, "--method", "feature", "--cv", 0, "--out", tmp_path / "m.json")
    np.savez(tmp_path / "f.npz", **forecasts)
    likely_command("calibrate", tmp_path / "f.npz", "--method", "global", "--cv", 0, "--out", tmp_path / "s.json")
    logits, features = arrays["logits"], arrays["features"]
    wrong: dict[str, tuple[str, dict[str, np.ndarray]]] = {
        "logits have 2 classes, the calibrator was fitted on 3": (
            "m.json",
            {"logits": logits[:, :2], "features": features},
        ),
        "m.json reads 4 features per row; new.npz has none": ("m.json", {"logits": logits}),
        "m.json reads 4 features per row; new.npz has 3": ("m.json", {"logits": logits, "features": features[:, :3]}),
        "new.npz has no logits": ("m.json", forecasts),
        "m.json was fitted to logits, and new.npz has probabilities": (
            "m.json",
            {"logits": softmax(logits), "features": features},
        ),
        "s.json reads the regressor's scales; new.npz has none": ("s.json", {"mean": forecasts["mean"]}),
        "new.npz has no mean": ("s.json", arrays),
        "new.npz is not read: it is not a model of likely": ("new.npz", arrays),
    }
    for message, (model, content) in wrong.items():
        np.savez(tmp_path / "new.npz", **content)
        done = likely_command("predict", tmp_path / model, tmp_path / "new.npz", "--out", tmp_path / "p.npz")
        assert done.exit_code == 2, message
        assert message in done.stderr
        assert not (tmp_path / "p.npz").exists()
    for words, message in (
        (["--out", tmp_path / "p.xlsx"], "--out must end in .npz or .csv or .parquet"),
        (["--out", tmp_path / "p.npz", "--coverage", 1], "--coverage is for regressors"),
    ):
        done = likely_command("predict", tmp_path / "m.json", outputs, *words)
        assert done.exit_code == 2
        assert message in done.stderr
