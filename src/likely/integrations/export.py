"""Export of networks, together with their likelihood or calibrator, to ``torch.export`` programs and ONNX files."""

import copy
import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from likely._typing import FilePath
from likely.calibration import CalibratedModule
from likely.losses import LikelihoodLoss
from likely.optim import Supervised
from likely.parameters import Data

__all__ = ["export", "to_onnx"]


def export(module: nn.Module, example_inputs: Sequence[Any]) -> torch.export.ExportedProgram:
    """Export a module as a program of plain torch operations, in evaluation mode, for any number of rows.

    What the program returns depends on the module:

    * a fitted :class:`likely.calibration.CalibratedModule` returns calibrated logits. Its calibrator may be any but
      Platt scaling and isotonic calibration, which are not computed in torch;
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
    outputs = ["logits"] if isinstance(module, CalibratedModule) else None
    if isinstance(module, Supervised):
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
