"""Exported programs and ONNX files give the numbers of the modules they were made from."""

import logging

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

import likely
from likely.calibration import (
    AutoCalibrator,
    CalibratedModule,
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    IsotonicCalibration,
    LinearTemperature,
    StructuredMatrixScaling,
    VectorScaling,
    compose,
)

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
import onnxruntime

from likely.integrations.export import export, to_onnx

WEAK = 0.01  # a ridge that leaves every part of a map at work


def calibrated(calibrator):
    x = torch.randn(400, 5)
    network = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 3)).eval()
    with torch.no_grad():
        labels = (4 * network(x) + torch.randn(400, 3) * x[:, :1].exp() + torch.tensor([1.0, 0, 0])).argmax(1)
    return CalibratedModule(network, calibrator).fit(x, labels), x


CALIBRATORS = {
    "global": GlobalTemperature(),
    "linear": LinearTemperature(penalty=WEAK),
    "features": FeatureTemperature(penalty=WEAK),
    "deep": DeepTemperature(max_iter=40, margin=0.0),
    "deep, held back": DeepTemperature(max_iter=5, margin=1e6),
    "vector": VectorScaling(penalty=WEAK),
    "matrix": StructuredMatrixScaling(penalty=WEAK),
    "composed": compose(StructuredMatrixScaling(penalty=WEAK), LinearTemperature(penalty=WEAK), cv=None),
    "averaged": AutoCalibrator({"GS": GlobalTemperature(), "VS": VectorScaling(penalty=WEAK)}, slack=1e9),
}


@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrated_logits_are_the_same(name):
    torch.manual_seed(0)
    module, x = calibrated(CALIBRATORS[name])
    program = export(module, (x[:2],))
    for rows in (x, x[:1]):
        torch.testing.assert_close(program.module()(rows), module(rows), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(module(x), module.model(x), rtol=1e-2)  # the calibrator does something
    assert module.model.training is False


def run(path, x):
    session = onnxruntime.InferenceSession(path)
    return {
        output.name: torch.from_numpy(value)
        for output, value in zip(session.get_outputs(), session.run(None, {"input": x.numpy()}), strict=True)
    }


def test_onnxruntime_runs_a_calibrated_network(tmp_path):
    module, x = calibrated(compose(StructuredMatrixScaling(penalty=WEAK), FeatureTemperature(penalty=WEAK), cv=None))
    to_onnx(module, (x[:2],), tmp_path / "model.onnx")
    torch.testing.assert_close(run(tmp_path / "model.onnx", x)["logits"], module(x).detach(), rtol=1e-5, atol=1e-5)


def regressor(loss_fn):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    step = likely.Supervised(model, loss_fn, features="1")
    step(torch.randn(50, 4), torch.randn(50, 2))  # moments of the features
    return step


def test_onnxruntime_runs_a_network_that_predicts_its_scale(tmp_path):
    step, x = regressor(likely.NormalLoss(scale=likely.Predicted(8, (2,)))), torch.randn(7, 4)
    to_onnx(step, (x,), tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", x[:3])
    prediction, features = step.eval().predict(x[:3])
    expected = step.loss_fn.distribution(prediction, features=features)
    assert list(found) == ["prediction", "scale"]
    torch.testing.assert_close(found["prediction"], expected.mean.detach())
    torch.testing.assert_close(found["scale"], expected.scale.detach())


def test_an_export_says_nothing(tmp_path):
    said, handler = [], logging.Handler()
    handler.emit = said.append
    logging.getLogger("torch.onnx").addHandler(handler)
    try:
        to_onnx(nn.Linear(2, 1), (torch.ones(2, 2),), tmp_path / "model.onnx")
    finally:
        logging.getLogger("torch.onnx").removeHandler(handler)
    assert [record.getMessage() for record in said] == []


def test_all_parameters_of_a_likelihood_come_along():
    step, x = regressor(likely.StudentTLoss(scale=likely.Predicted(8), df=4.0)), torch.randn(6, 4)
    outputs = dict(zip(["prediction", *step.loss_fn.slots], export(step, (x[:2],)).module()(x), strict=True))
    assert step.training
    prediction, features = step.eval().predict(x)
    expected = step.loss_fn.distribution(prediction, features=features)
    torch.testing.assert_close(outputs["scale"].expand(6, 2), expected.scale)
    assert outputs["df"] == 4


def test_other_modules_are_exported_as_they_are():
    model, x = nn.Bilinear(3, 4, 2), (torch.randn(5, 3), torch.randn(5, 4))
    torch.testing.assert_close(export(model, [value[:2] for value in x]).module()(*x), model(*x))


def test_what_cannot_be_exported_says_so():
    module, x = calibrated(IsotonicCalibration())
    with pytest.raises(TypeError, match="IsotonicCalibration cannot be exported: calibrate with a temperature"):
        export(module, (x,))
    with pytest.raises(NotFittedError, match="held-out rows"):
        export(CalibratedModule(nn.Linear(5, 3)), (x,))
    with pytest.raises(ValueError, match="two rows or more"):
        export(nn.Linear(5, 3), (x[:1],))
    with pytest.raises(ValueError, match="fallback='mean'"):
        export(likely.Supervised(nn.Linear(5, 3), likely.NormalLoss(scale=likely.Data(4))), (x,))
    with pytest.raises(TypeError, match="not MSELoss"):
        export(likely.Supervised(nn.Linear(5, 3), nn.MSELoss()), (x,))
