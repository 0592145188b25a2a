"""Export of networks, together with their likelihood or calibrator, to ``torch.export`` programs and ONNX files."""

import copy
import logging
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from likely._typing import FilePath
from likely.calibration import (
    AutoCalibrator,
    CalibratedModule,
    Calibrator,
    Composition,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
    VectorScaling,
)
from likely.calibration._row_factor import LINK
from likely.calibration._scaling import affine, centred
from likely.losses import LikelihoodLoss
from likely.optim import Supervised
from likely.parameters import Data

__all__ = ["export", "to_onnx"]


def export(module: nn.Module, example_inputs: Sequence[Any]) -> torch.export.ExportedProgram:
    """Export a module as a program of plain torch operations, in evaluation mode, for any number of rows.

    What the program returns depends on the module:

    * a fitted :class:`likely.calibration.CalibratedModule` returns calibrated logits. Its calibrator may be a
      temperature (global, linear, by features), vector or structured matrix scaling, or made of these by ``compose``
      or ``AutoCalibrator``;
    * a :class:`likely.Supervised` returns the prediction and then the values of the loss's parameters, such as the
      scale, in the order of the loss's arguments and in a shape that broadcasts to the prediction;
    * any other module returns what it returns.

    See also :func:`to_onnx`.

    Args:
        module: the module to export; it is not changed.
        example_inputs: tuple of positional arguments, each tensor with two rows or more.

    Returns:
        The exported program; its ``module()`` is called as the module is.

    Raises:
        ValueError: if the example inputs have fewer than two rows, or a Data parameter has no fallback.
        TypeError: if the loss or the calibrator cannot be exported.

    >>> import torch, likely
    >>> from likely.integrations.export import export
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> trained = likely.Supervised(model, likely.NormalLoss(scale=likely.Predicted(8, (1,))), features="1")
    >>> program = export(trained, (torch.randn(2, 4),))
    >>> mean, scale = program.module()(torch.randn(5, 4))
    >>> mean.shape, scale.shape
    (torch.Size([5, 1]), torch.Size([5, 1]))
    """
    return _exported(module, example_inputs)[0]


def _exported(module: nn.Module, example_inputs: Sequence[Any]) -> tuple[torch.export.ExportedProgram, Any]:
    """The program, and the names of its outputs where they are known."""
    inputs = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    tensors = [value for value in inputs if isinstance(value, Tensor) and value.ndim]
    if not tensors or any(len(value) < 2 for value in tensors):
        raise ValueError("example_inputs must hold tensors with two rows or more: one row would fix the size at one")
    rows = torch.export.Dim("rows", min=1)
    shapes = tuple({0: rows} if isinstance(value, Tensor) and value.ndim else None for value in inputs)
    outputs: list[str] | None = None
    if isinstance(module, CalibratedModule):
        module, outputs = _Calibrated(module), ["logits"]
    elif isinstance(module, Supervised):
        module, outputs = _Predictive(module), ["prediction", *getattr(module.loss_fn, "slots", {})]
    else:
        module = copy.deepcopy(module)
    with torch.no_grad():
        packed: Any = (shapes,) if outputs else shapes
        return torch.export.export(module.eval(), inputs, dynamic_shapes=packed), outputs


def to_onnx(module: nn.Module, example_inputs: Sequence[Any], path: FilePath) -> None:
    """Write a module to an ONNX file, with the outputs that :func:`export` gives it.

    The inputs are named ``input``, or ``input_0``, ``input_1`` … where there are several; the outputs are ``logits``
    for a CalibratedModule, and ``prediction`` and the names of the loss's parameters for a Supervised.

    Args:
        module: the module to export; it is not changed.
        example_inputs: tuple of positional arguments, each tensor with two rows or more.
        path: path of the file to write.

    Raises:
        ValueError: if the example inputs have fewer than two rows, or a Data parameter has no fallback.
        TypeError: if the loss or the calibrator cannot be exported.

    >>> import torch, tempfile, onnxruntime
    >>> from likely.integrations.export import to_onnx
    >>> path = tempfile.mkdtemp() + "/model.onnx"
    >>> to_onnx(torch.nn.Linear(4, 1), (torch.randn(2, 4),), path)
    >>> onnxruntime.InferenceSession(path).run(None, {"input": torch.randn(3, 4).numpy()})[0].shape
    (3, 1)
    """
    program, outputs = _exported(module, example_inputs)
    # It warns of every operator of torchvision that it could not write, where torchvision is not installed.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    count = len(program.graph_signature.user_inputs)
    inputs = ["input"] if count == 1 else [f"input_{i}" for i in range(count)]
    with warnings.catch_warnings():
        # torch's exporter still calls functions that torch has deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        written = torch.onnx.export(program, dynamo=True, input_names=inputs, output_names=outputs, verbose=False)
    assert written is not None
    written.save(os.fspath(path))


class _Predictive(nn.Module):
    """A prediction and the parameters of its likelihood."""

    def __init__(self, supervised: Supervised) -> None:
        super().__init__()
        if not isinstance(supervised.loss_fn, LikelihoodLoss):
            raise TypeError(f"export supports the likelihood losses of likely, not {type(supervised.loss_fn).__name__}")
        if any(isinstance(part, Data) and part.fallback is None for part in supervised.loss_fn.modules()):
            raise ValueError("Data parameters belong to training rows: give them fallback='mean' or 'init' to export")
        self.supervised = copy.deepcopy(supervised)

    def forward(self, *inputs: Any) -> tuple[Tensor, ...]:
        prediction, features = self.supervised.predict(*inputs)
        loss_fn: Any = self.supervised.loss_fn
        return (prediction, *loss_fn.parameter_values(prediction, features).values())


class _Calibrated(nn.Module):
    """A classifier and its fitted calibrator, the latter written in torch."""

    def __init__(self, calibrated: CalibratedModule) -> None:
        super().__init__()
        if not hasattr(calibrated.calibrator, "classes_"):
            raise NotFittedError("the calibrator is not fitted: call fit with held-out rows first")
        self.model, self.layer = copy.deepcopy(calibrated.model), calibrated.layer
        self.calibrate = _in_torch(calibrated.calibrator)

    def forward(self, *inputs: Any) -> Tensor:
        # CalibratedModule compares numbers of rows, which would fix them in the program.
        caught: list[Tensor] = []
        layer = self.model.get_submodule(self.layer or "")
        handle = layer.register_forward_pre_hook(lambda module, args: caught.append(args[0]))
        output = self.model(*inputs)
        handle.remove()
        logits: Tensor = output if isinstance(output, Tensor) else output.logits
        wide = torch.promote_types(logits.dtype, torch.float32)
        features = caught[-1].flatten(1).to(wide) if self.layer else logits  # a model without layers has none
        calibrated: Tensor = self.calibrate(logits.to(wide), features)
        return calibrated.to(logits.dtype)


def _in_torch(calibrator: Calibrator) -> nn.Module:
    if isinstance(calibrator, GlobalTemperature):
        return _Divide(calibrator.temperature_)
    if isinstance(calibrator, LinearTemperature | FeatureTemperature):
        return _Temperature(calibrator, by_features=isinstance(calibrator, FeatureTemperature))
    if isinstance(calibrator, VectorScaling):
        return _Affine(calibrator)
    if isinstance(calibrator, Composition):
        return _Several(calibrator.fitted_, mean=False)
    if isinstance(calibrator, AutoCalibrator):
        return _Several(calibrator.members_.values(), mean=True)
    raise TypeError(
        f"{type(calibrator).__name__} cannot be exported: calibrate with GlobalTemperature, LinearTemperature, "
        "FeatureTemperature, VectorScaling or StructuredMatrixScaling, or several of them by compose"
    )


class _Divide(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = float(temperature)

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        return logits / self.temperature


class _Temperature(nn.Module):
    """z f(b + w · x) / T₀ with the shifted softplus f, as fitted."""

    weight: Tensor

    def __init__(self, calibrator: Any, *, by_features: bool) -> None:
        super().__init__()
        solution, self.by_features = calibrator.solution_, by_features
        slope = solution.coef / solution.deviation
        self.register_buffer("weight", torch.as_tensor(slope, dtype=torch.float32))
        self.bias = float(solution.intercept - solution.mean @ slope)
        self.temperature = float(calibrator.global_temperature_)

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        source = features if self.by_features else logits
        u = source @ self.weight.to(source.dtype) + self.bias
        inverse: Tensor = LINK(u) / self.temperature
        return logits * inverse.to(logits.dtype)[:, None]


class _Affine(nn.Module):
    """z / T₀ + δ ∘ x + b + W x, where x are the centred logits over T₀."""

    shift: Tensor
    bias: Tensor
    mixing: Tensor

    def __init__(self, calibrator: VectorScaling) -> None:
        super().__init__()
        self.temperature = float(calibrator.global_temperature_)
        self.register_buffer("shift", torch.as_tensor(calibrator.factors_ - 1, dtype=torch.float32))
        self.register_buffer("bias", torch.as_tensor(calibrator.bias_, dtype=torch.float32))
        self.register_buffer("mixing", torch.as_tensor(calibrator.mixing_, dtype=torch.float32))

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        tempered = logits / self.temperature
        learned = (part.to(tempered.dtype) for part in (self.shift, self.bias, self.mixing))
        return affine(tempered, centred(tempered), *learned)


class _Several(nn.Module):
    """Calibrators one after the other, or the mean of their outputs."""

    def __init__(self, calibrators: Iterable[Calibrator], *, mean: bool) -> None:
        super().__init__()
        self.parts, self.mean = nn.ModuleList(map(_in_torch, calibrators)), mean

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        if self.mean:
            return torch.stack([part(logits, features) for part in self.parts]).mean(0)
        for part in self.parts:
            logits = part(logits, features)
        return logits
