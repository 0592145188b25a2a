"""Calibrators saved as JSON come back as they were, and what is no such file is refused in words."""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import likely
from likely import calibration
from likely.calibration import (
    AutoCalibrator,
    AutoScale,
    CalibratedRegressor,
    DeepScale,
    DeepTemperature,
    FeatureTemperature,
    GlobalScale,
    GlobalTemperature,
    IsotonicCalibration,
    IsotonicScale,
    LinearScale,
    LinearTemperature,
    PlattScaling,
    StructuredMatrixScaling,
    VectorScaling,
    compose,
)
from pairwise import together

N, C, D = 400, 3, 4


def classified(dtype=np.float64):
    rng = np.random.default_rng(0)
    y, x = rng.integers(0, C, N), rng.normal(size=(N, D))
    logits = 6 * np.eye(C)[y] + 3 * np.exp(0.8 * x[:, :1]) * rng.normal(size=(N, C)) + [2, 0, 0]
    return logits.astype(dtype), y, x.astype(dtype)


def regressed():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(N, D))
    mean, scale = rng.normal(size=N), np.exp(0.3 * rng.normal(size=N))
    return mean, scale, mean + scale * np.exp(0.7 * x[:, 0]) * rng.standard_t(4, size=N), x


CLASSIFIERS = {
    "global": GlobalTemperature(),
    "linear": LinearTemperature(),
    "unregularised": LinearTemperature(penalty=None),
    "feature": FeatureTemperature(),
    "deep": DeepTemperature(hidden=5, max_iter=40, margin=0.0),
    "deep, held back": DeepTemperature(hidden=5, max_iter=40, margin=1e6),
    "vector": VectorScaling(),
    "matrix": StructuredMatrixScaling(penalty=3.0),
    "platt": PlattScaling(),
    "isotonic": IsotonicCalibration(),
    "composition": compose(VectorScaling(), FeatureTemperature()),
    "nested": compose(GlobalTemperature(), DeepTemperature(hidden=3, max_iter=20, margin=0.0)),
    "auto": AutoCalibrator(cv=2, slack=1e6),
}
SCALES = {
    "global": GlobalScale(),
    "laplace": GlobalScale(likelihood="laplace"),
    "linear": LinearScale(),
    "linear, no penalty": LinearScale(penalty=None),
    "deep": DeepScale(hidden=8, max_iter=100, learning_rate=0.03, margin=0.0),
    "deep, held back": DeepScale(hidden=5, max_iter=60, margin=1e6),
    "isotonic": IsotonicScale(),
    "isotonic laplace": IsotonicScale(likelihood="laplace"),
    "pipeline": compose(LinearScale(), IsotonicScale()),
    "auto": AutoScale(candidates={"global": GlobalScale(), "isotonic": IsotonicScale()}),
}


def again(calibrator, tmp_path):
    calibration.save(calibrator, tmp_path / "model.json")
    return calibration.load(tmp_path / "model.json")


@together("dtype", [np.float64, np.float32])
@together("name", CLASSIFIERS)
def test_a_classifier_answers_as_before_bit_for_bit(name, dtype, tmp_path):
    logits, y, x = classified(dtype)
    fitted = clone(CLASSIFIERS[name]).fit(logits[:300], y[:300], x[:300])
    loaded = again(fitted, tmp_path)
    assert type(loaded) is type(fitted)
    assert ('"networks_": {' in (tmp_path / "model.json").read_text()) == (name in ("deep", "nested"))
    assert np.array_equal(loaded.predict_proba(logits, x), fitted.predict_proba(logits, x))
    tensors = torch.as_tensor(logits), torch.as_tensor(x)
    assert torch.equal(loaded.transform(*tensors), fitted.transform(*tensors))
    if name not in ("vector", "matrix", "platt", "isotonic", "composition", "nested", "auto"):
        assert np.array_equal(loaded.temperature(logits, x), fitted.temperature(logits, x))


@together("own_scale", [True, False])
@together("name", SCALES)
def test_a_regressor_answers_as_before_bit_for_bit(name, own_scale, tmp_path):
    mean, scale, y, x = regressed()
    scale = scale if own_scale else None
    fitted = clone(SCALES[name]).fit(mean, scale, y, x)
    loaded = again(fitted, tmp_path)
    assert type(loaded) is type(fitted)
    assert ('"networks_": {' in (tmp_path / "model.json").read_text()) == (name == "deep")
    x = 2 * x  # some of it beyond what the fit has met
    assert np.array_equal(loaded.predict_scale(mean, scale, x), fitted.predict_scale(mean, scale, x))
    ends = [each.predict_interval(mean, scale, x, coverage=0.8) for each in (loaded, fitted)]
    assert np.array_equal(*ends)
    target = torch.as_tensor(y)
    before, after = (each.distribution(mean, scale, x).log_prob(target) for each in (fitted, loaded))
    assert torch.equal(before, after)


@pytest.mark.parametrize("kind", [LinearScale, DeepScale])
def test_a_scale_without_features_reads_the_forecast_again(kind, tmp_path):
    mean, scale, y, _ = regressed()
    fitted = kind().fit(mean, scale, y)
    assert np.array_equal(again(fitted, tmp_path).predict_scale(mean, scale), fitted.predict_scale(mean, scale))
    assert json.loads((tmp_path / "model.json").read_text())["features"] == 0


@pytest.mark.parametrize("kind", [LinearScale, DeepScale])
def test_one_feature_is_not_taken_for_the_mean(kind, tmp_path):
    mean, _, y, x = regressed()
    loaded = again(kind().fit(mean, None, y, x[:, :1]), tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["features"] == 1
    with pytest.raises(ValueError, match="features have no columns, the fit had 1 columns"):
        loaded.predict_scale(mean, None)


def test_what_was_learned_and_chosen_is_told_again(tmp_path):
    logits, y, x = (part[:150] for part in classified())
    fitted = AutoCalibrator(cv=3).fit(logits, y, x).set_params(random_state=np.random.RandomState(0))
    loaded = again(fitted, tmp_path)
    assert loaded.scores_ == fitted.scores_
    assert loaded.behind_ == fitted.behind_
    assert loaded.name_ == fitted.name_
    assert list(loaded.members_) == list(fitted.members_)
    assert loaded.cv == 3
    assert loaded.random_state == 0  # a generator has no place in the file
    assert loaded.fit(logits, y, x).predict_proba(logits, x).shape == (150, C)
    never = again(FeatureTemperature().fit(logits, y, np.random.default_rng(1).normal(size=(150, 50))), tmp_path)
    assert never.precision_ == np.inf


def test_the_file_is_plain_versioned_and_readable(tmp_path):
    logits, y, x = classified()
    fitted = compose(VectorScaling(), FeatureTemperature()).set_params(inputs="probabilities")
    fitted.fit(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), y, x)
    calibration.save(fitted, tmp_path / "model.json", about={"network": "ResNet", "rows": [1, 2]})
    text = (tmp_path / "model.json").read_text()
    whole = json.loads(text)
    assert {name: whole[name] for name in ("format", "likely", "kind", "inputs", "classes", "features")} == {
        "format": 1,
        "likely": likely.__version__,
        "kind": "classifier",
        "inputs": "probabilities",
        "classes": C,
        "features": D,
    }
    assert whole["about"] == {"network": "ResNet", "rows": [1, 2]}
    assert [step["class"] for step in whole["calibrator"]["fitted_"]] == ["VectorScaling", "FeatureTemperature"]
    assert max(map(len, text.splitlines())) < 200
    assert calibration.load(tmp_path / "model.json").inputs == "probabilities"
    assert os.listdir(tmp_path) == ["model.json"]


def model() -> dict:
    logits, y, x = classified()
    from likely.calibration._saved import to_json

    return json.loads(to_json(compose(VectorScaling(), FeatureTemperature()).fit(logits, y, x)))


def change_in(whole, value, *path):
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return whole


def change(whole, value, *path):
    return json.dumps(change_in(whole, value, *path))


FIRST, SECOND = ("calibrator", "fitted_", 0), ("calibrator", "fitted_", 1)
LINE = (*SECOND, "solution_")
SPOILED = {
    "it is empty": lambda whole: "",
    "does not end with }: was the file cut short?": lambda whole: json.dumps(whole)[:300],
    "holds NaN": lambda whole: change(whole, [float("nan")] * C, *FIRST, "bias_"),
    "holds -Infinity": lambda whole: change(whole, [-float("inf")] * C, *FIRST, "bias_"),
    "'bias_' of VectorScaling must be from -1.8e+308 to 1.8e+308, found [inf, 0, 0]": lambda whole: change(
        whole, "BIAS", *FIRST, "bias_"
    ).replace('"BIAS"', "[1e999, 0, 0]"),
    "is not a model of likely: it is not an object": lambda whole: "[1, 2]",
    "is not a model of likely: it has no 'format'": lambda whole: '{"a": 1}',
    "is not a model of likely: it has no 'likely'": lambda whole: change(whole, None, "likely"),
    "has format 2, written by likely 9.0": lambda whole: change(whole | {"likely": "9.0"}, 2, "format"),
    "'format' must be a whole number from 1 to 10000000, found '1'": lambda whole: change(whole, "1", "format"),
    "'kind' must be classifier or regressor, found 'cake'": lambda whole: change(whole, "cake", "kind"),
    "it has a part of an unknown class, 'GlobalScale'": lambda whole: change(whole, "GlobalScale", *FIRST, "class"),
    "it has a part of an unknown class, ['GlobalScale']": lambda whole: change(whole, ["GlobalScale"], *FIRST, "class"),
    "has no attribute 'fitted_'": lambda whole: change(whole, None, "calibrator", "fitted_"),
    "'NoneType' object has no attribute": lambda whole: change(whole, None, "calibrator"),
    "its Composition consists of no calibrators": lambda whole: change(whole, [], "calibrator", "fitted_"),
    "'int' object has no attribute": lambda whole: change(whole, 3, *FIRST),
    "'factors_' of VectorScaling must be 4 numbers, found 3": lambda whole: change(whole, 4, "classes"),
    "'factors_' of VectorScaling must be 3 numbers, found 2": lambda whole: change(whole, [1, 2], *FIRST, "factors_"),
    "'factors_' of VectorScaling must be 3 numbers, found 1": lambda whole: change(whole, 1.5, *FIRST, "factors_"),
    "'bias_' of VectorScaling must be a list of numbers, or of rows of one length, found [1, 'a', 2]": lambda whole: (
        change(whole, [1, "a", 2], *FIRST, "bias_")
    ),
    "or of rows of one length, found [[1], [1, 2], 3]": lambda whole: change(whole, [[1], [1, 2], 3], *FIRST, "bias_"),
    "'global_temperature_' of VectorScaling must be from 2.23e-308 to 1.8e+308, found -1": lambda whole: change(
        whole, -1, *FIRST, "global_temperature_"
    ),
    "'global_temperature_' of VectorScaling must be a finite number, found True": lambda whole: change(
        whole, True, *FIRST, "global_temperature_"
    ),
    "'global_temperature_' of VectorScaling must be 1 numbers, found 2": lambda whole: change(
        whole, [1.0, 2.0], *FIRST, "global_temperature_"
    ),
    "'deviation' of Solution must be from 2.23e-308": lambda whole: change(whole, [0.0] * D, *LINE, "deviation"),
    "'deviation' of Solution must be 5 numbers, found 4": lambda whole: change(whole, [0.0] * 5, *LINE, "mean"),
    "its Solution has the fields mean, deviation, intercept": lambda whole: change(whole, None, *LINE, "coef"),
    "inputs must be 'logits' or 'probabilities', got 'x'": lambda whole: change(
        change_in(whole, "x", "inputs"), "x", "calibrator", "inputs"
    ),
    "'inputs' is 'x', but its calibrator needs 'logits'": lambda whole: change(whole, "x", "inputs"),
    "'shell' is neither an argument of VectorScaling": lambda whole: change(whole, "rm", *FIRST, "shell"),
    "'predict' is neither an argument of VectorScaling": lambda whole: change(whole, 1, *FIRST, "predict"),
    "'__dict__' is neither an argument of VectorScaling": lambda whole: change(
        whole, {"kind": "dict", "items": []}, *FIRST, "__dict__"
    ),
}


@pytest.fixture(scope="module")
def whole():
    return json.dumps(model())


@together("message", SPOILED)
def test_a_spoiled_file_is_refused_in_words(message, whole, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(SPOILED[message](json.loads(whole)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.json") as refusal:
        calibration.load(path)
    assert message in str(refusal.value)


def test_every_cut_of_a_file_is_refused(whole, tmp_path):
    path = tmp_path / "model.json"
    for end in range(0, len(whole) - 1, 37):
        path.write_text(whole[:end])
        with pytest.raises(ValueError, match=r"model\.json"):
            calibration.load(path)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.json does not exist"):
        calibration.load(tmp_path / "nothing.json")
    with pytest.raises(FileNotFoundError, match="is not a file"):
        calibration.load(tmp_path)
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04\x95")
    with pytest.raises(ValueError, match=r"model.pkl is not read: it is not a model of likely: it is not text"):
        calibration.load(tmp_path / "model.pkl")


def test_what_cannot_be_saved_leaves_the_old_file(tmp_path, monkeypatch):
    logits, y, _ = classified()
    path = tmp_path / "model.json"
    calibration.save(GlobalTemperature().fit(logits, y), path)
    old = path.read_bytes()

    class Mine(GlobalTemperature):
        pass

    with pytest.raises(TypeError, match="Mine is not a calibrator of likely"):
        calibration.save(Mine().fit(logits, y), path)
    with pytest.raises(TypeError, match="Its calibrator_ can be saved"):
        calibration.save(CalibratedRegressor(Ridge()).fit(logits, logits[:, 0]), path)
    with pytest.raises(NotFittedError):
        calibration.save(VectorScaling(), path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device; the model was not saved"):
        calibration.save(VectorScaling().fit(logits, y), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.json"]


def test_a_loaded_calibrator_refuses_what_does_not_fit(tmp_path):
    logits, y, x = classified()
    loaded = again(FeatureTemperature().fit(logits, y, x), tmp_path)
    with pytest.raises(ValueError, match="logits have 2 classes, the calibrator was fitted on 3"):
        loaded.predict_proba(logits[:, :2], x)
    with pytest.raises(ValueError, match="needs features="):
        loaded.predict_proba(logits)
    with pytest.raises(ValueError, match="features have 3 columns, the fit had 4"):
        loaded.predict_proba(logits, x[:, :3])


def nested(whole, depth):
    inner = whole["calibrator"]
    for _ in range(depth):
        inner = {"class": "Composition", "steps": [], "n_classes_": C, "fitted_": [inner]}
    return json.dumps({**whole, "calibrator": inner})


LONG = "1" + "0" * 400
GLOBAL = ("calibrator", "temperature_")
HOSTILE = {
    "'temperature_' of GlobalTemperature must be a finite number, found 1000": lambda whole: change(
        whole, int(LONG), *GLOBAL
    ),
    "holds a whole number of 5001 digits": lambda whole: change(whole, "T", *GLOBAL).replace('"T"', "1" + "0" * 5000),
    "'temperature_' of GlobalTemperature must be from 2.23e-308 to 1.8e+308, found 1e-320": lambda whole: change(
        whole, 1e-320, *GLOBAL
    ),
    "'classes' must be a whole number from 2 to 10000000, found 1000000000000": lambda whole: change(
        whole, 10**12, "classes"
    ),
    "'classes' must be a whole number from 2 to 10000000, found 1000000000000000": lambda whole: change(
        whole, int(LONG), "classes"
    ),
    "'features' must be a whole number from 0": lambda whole: change(whole, True, "features"),
    "it is nested too deeply": lambda whole: "[" * 10**5,
    "is not a model of likely: it is nested too deeply": lambda whole: nested(whole, 300),
    "its Composition consists of no calibrators": lambda whole: change(
        whole, {"class": "Composition", "steps": [], "n_classes_": C, "fitted_": []}, "calibrator"
    ),
    "missing 1 required positional argument: 'steps'": lambda whole: change(
        whole, {"class": "Composition", "n_classes_": C, "fitted_": [whole["calibrator"]]}, "calibrator"
    ),
    "has the field 'temperature_' twice": lambda whole: json.dumps(whole).replace(
        '"temperature_"', '"temperature_": 1, "temperature_"'
    ),
    "'features' is 7, but its calibrator needs 0": lambda whole: change(whole, 7, "features"),
    "the names in a record must differ: ['a']": lambda whole: change(
        whole,
        {
            "class": "AutoCalibrator",
            "n_classes_": C,
            "members_": {"kind": "dict", "items": [["a", whole["calibrator"]]] * 2},
        },
        "calibrator",
    ),
}


@together("message", HOSTILE)
def test_a_hostile_classifier_is_refused_naming_the_field(message, tmp_path):
    from likely.calibration._saved import to_json

    logits, y, _ = classified()
    whole = json.loads(to_json(GlobalTemperature().fit(logits, y)))
    (tmp_path / "model.json").write_text(HOSTILE[message](whole))
    with pytest.raises(ValueError, match=r"model\.json") as refusal:
        calibration.load(tmp_path / "model.json")
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (("likelihood",), "cake", "likelihood must be one of 'normal', 'laplace', got 'cake'"),
        (("likelihood",), 5, "likelihood must be one of 'normal', 'laplace', got 5"),
        (("likelihood",), ["normal"], "likelihood must be one of 'normal', 'laplace', got ['normal']"),
        (("met_", "range"), [3, -3], "'range' of MetRanges must rise, found [3, -3]"),
        (("met_", "columns"), [[1e9] * D, [0] * D], "'columns' of MetRanges must rise"),
        (("met_", "columns"), [[0] * 2, [1] * 2], "size"),
        (("global_scale_",), 5e-324, "'global_scale_' of LinearScale must be from 2.23e-308"),
        (("has_scale_",), False, "'scale' is True, but its calibrator needs False"),
    ],
)
def test_a_hostile_regressor_is_refused_naming_the_field(field, value, message, tmp_path):
    from likely.calibration._saved import to_json

    mean, scale, y, x = regressed()
    whole = json.loads(to_json(clone(SCALES["linear"]).fit(mean, scale, y, x)))
    (tmp_path / "model.json").write_text(change(whole, value, "calibrator", *field))
    with pytest.raises(ValueError, match=r"model\.json") as refusal:
        calibration.load(tmp_path / "model.json")
    assert message in str(refusal.value)


CURVE = ("curves_", 0)


@together(
    ("field", "message"),
    [
        ((*CURVE, "odds"), "'odds' of Polygon must rise"),
        ((*CURVE, "probability"), "'probability' of Polygon must rise"),
        (("levels_",), "'levels_' of IsotonicScale must rise"),
    ],
)
def test_a_curve_that_falls_is_refused(field, message, tmp_path):
    from likely.calibration._saved import to_json

    logits, y, _ = classified()
    mean, scale, target, _ = regressed()
    fitted = IsotonicScale().fit(mean, scale, target) if field == ("levels_",) else IsotonicCalibration().fit(logits, y)
    whole = json.loads(to_json(fitted))
    rising = functools.reduce(lambda part, key: part[key], field, whole["calibrator"])
    (tmp_path / "model.json").write_text(change(whole, rising[::-1], "calibrator", *field))
    with pytest.raises(ValueError, match=message):
        calibration.load(tmp_path / "model.json")


PAGE = Path(__file__).parents[2] / "docs" / "calibrated-models.md"
NODE = shutil.which("node")
ANSWER = """
const { model, rows } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const own = model.kind === "classifier"
  ? rows.map(({ z, x }) => probabilities(model, z, x))
  : rows.map(({ mean, own, x }) => scale(model.calibrator, mean, own, x));
console.log(JSON.stringify(own));
"""


def in_javascript(path, rows):
    code = re.search(r"```js\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code
    told = json.dumps({"model": json.loads(path.read_text(encoding="utf-8")), "rows": rows})
    done = subprocess.run([NODE, "-e", code.group(1) + ANSWER], input=told, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout))


@pytest.mark.skipif(NODE is None, reason="the reader in JavaScript needs node")
@together("name", CLASSIFIERS)
def test_the_reader_in_javascript_agrees_on_classifiers(name, tmp_path):
    logits, y, x = classified()
    fitted = clone(CLASSIFIERS[name]).fit(logits, y, x)
    calibration.save(fitted, tmp_path / "model.json")
    own = in_javascript(
        tmp_path / "model.json", [{"z": z.tolist(), "x": h.tolist()} for z, h in zip(logits, x, strict=True)]
    )
    # The networks of deep scaling run in float32 here.
    tolerance = 1e-4 if name in ("deep", "nested") else 1e-9
    np.testing.assert_allclose(own, fitted.predict_proba(logits, x), rtol=tolerance)


@pytest.mark.skipif(NODE is None, reason="the reader in JavaScript needs node")
@together("features", [True, False])
@together("name", [name for name in SCALES if "isotonic" not in name and name not in ("pipeline", "auto")])
def test_the_reader_in_javascript_agrees_on_scales(name, features, tmp_path):
    mean, scale, y, x = regressed()
    fitted = clone(SCALES[name]).fit(mean, scale, y, x if features else None)
    calibration.save(fitted, tmp_path / "model.json")
    rows = [{"mean": m, "own": s, "x": h} for m, s, h in zip(mean.tolist(), scale.tolist(), x.tolist(), strict=True)]
    expected = fitted.predict_scale(mean, scale, x if features else None)
    np.testing.assert_allclose(in_javascript(tmp_path / "model.json", rows), expected, rtol=1e-5)
