"""A torch classifier that returns calibrated logits."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Self

import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from likely.calibration._calibrator import Calibrator
from likely.calibration._choice import make_calibrator


class CalibratedModule(nn.Module):
    """A torch classifier followed by a calibrator: ``forward`` returns calibrated logits, in place of the classifier's.

    Features for the calibrators that read them are the input of a layer, collected by a hook. The classifier's weights
    and training mode are not changed. Calibrated logits keep the gradient in the input wherever the calibrator consists
    of torch operations, as temperatures do.

    The fitted calibrator is part of the module (pickle, deepcopy, ``torch.save(module)``) but not of its
    ``state_dict``, which holds the classifier's weights under ``model.``.

    Args:
        model: classifier that returns logits of shape (n, C), or an object with them as ``.logits``.
        calibrator: a calibrator or the name of one, as ``method`` of :class:`CalibratedClassifier`.
        layer: name of the layer whose input is the features, as in ``model.named_modules()``; None for the last
            ``nn.Linear`` that runs.

    Raises:
        ValueError: the model has no layer of that name.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from likely.calibration import CalibratedModule
        >>> _ = torch.manual_seed(0)
        >>> x, y = torch.randn(600, 5), torch.randint(3, (600,))
        >>> network = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))    # untrained, yet confident
        >>> calibrated = CalibratedModule(network, "global").fit(x, y)
        >>> calibrated(x).shape, calibrated.layer
        (torch.Size([600, 3]), '2')
        >>> nn.functional.cross_entropy(calibrated(x), y) < nn.functional.cross_entropy(network(x), y)
        tensor(True)

    See Also:
        :class:`CalibratedClassifier` for scikit-learn's classifiers.
    """

    def __init__(self, model: nn.Module, calibrator: str | Calibrator = "auto", layer: str | None = None) -> None:
        super().__init__()
        if layer is not None and layer not in dict(model.named_modules()):
            raise ValueError(f"the model has no layer {layer!r}; see model.named_modules()")
        self.model = model
        self.calibrator = make_calibrator(calibrator)
        self.layer = layer

    def fit(self, data: Any, labels: Tensor | None = None, *, batch_size: int = 512) -> Self:
        """Fit the calibrator to held-out rows.

        Args:
            data: inputs as a tensor, with ``labels``; or a loader of pairs (inputs, labels), where inputs are a tensor,
                a tuple of positional or a mapping of keyword arguments. All are moved to the model's device.
            labels: class numbers of shape (n,); None where ``data`` is a loader.
            batch_size: number of rows per pass through the model, for inputs as a tensor.

        Returns:
            The module itself.

        Raises:
            ValueError: there are no rows, or inputs and labels differ in length.
        """
        batches = data if labels is None else _batches(data, labels, batch_size)
        device = next(self.model.parameters(), torch.empty(0)).device
        with torch.no_grad(), _evaluating(self.model):
            rows = [(*self._run(*_arguments(inputs, device)), torch.as_tensor(part)) for inputs, part in batches]
        if not rows:
            raise ValueError("there are no rows to calibrate on")
        logits, features, targets = zip(*rows, strict=True)
        self.calibrator.fit(torch.cat(logits), torch.cat(targets), None if self.layer is None else torch.cat(features))
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return calibrated logits.

        Args:
            *args: positional arguments of the classifier.
            **kwargs: keyword arguments of the classifier.

        Returns:
            Tensor of shape (n, C), in the dtype of the classifier's logits.
        """
        self._check_fitted()
        logits, features = self._run(args, kwargs)
        # Not the public transform, whose checks of all values would synchronise a GPU.
        wide = [
            part if part is None else part.to(torch.promote_types(part.dtype, torch.float32))
            for part in (logits, features)
        ]
        return self.calibrator._calibrate(*wide).to(logits.dtype)

    @torch.no_grad()
    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return calibrated probabilities, with the classifier in evaluation mode and without gradients.

        Args:
            *args: positional arguments of the classifier.
            **kwargs: keyword arguments of the classifier.

        Returns:
            Tensor of shape (n, C), in float32.
        """
        with _evaluating(self.model):
            return torch.softmax(self(*args, **kwargs).float(), dim=1)

    @torch.no_grad()
    def temperature(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the temperature that divides the logits of each row, with the classifier in evaluation mode.

        Args:
            *args: positional arguments of the classifier.
            **kwargs: keyword arguments of the classifier.

        Returns:
            Tensor of shape (n,).

        Raises:
            AttributeError: the calibrator does more than divide the logits.
        """
        self._check_fitted()
        with _evaluating(self.model):
            temperature: Tensor = self.calibrator.temperature(*self._run(args, kwargs))
        return temperature

    def _run(self, args: Any, kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Return logits and the features collected by the hook."""
        with _catching(self._candidates()) as caught:
            output = self.model(*args, **kwargs)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            raise TypeError("the model must return logits of shape (rows, classes), or an object with them as .logits")
        if self.layer is None and caught:
            self.layer = list(caught)[-1]
        if self.layer is None:
            return logits, None
        if self.layer not in caught:
            raise ValueError(f"layer {self.layer!r} did not run: set layer= to another one")
        features = caught[self.layer]
        # To compare numbers of rows would fix them in an exported program.
        if not torch.compiler.is_compiling() and len(features) != len(logits):
            raise ValueError(
                f"layer {self.layer!r} has {len(features)} rows of input for {len(logits)} rows of logits: "
                "set layer= to another one"
            )
        return logits, features.flatten(1)

    def _candidates(self) -> dict[str, nn.Module]:
        if self.layer is not None:
            return {self.layer: self.model.get_submodule(self.layer)}
        return {name: module for name, module in self.model.named_modules() if isinstance(module, nn.Linear)}

    def _check_fitted(self) -> None:
        if not hasattr(self.calibrator, "classes_"):
            raise NotFittedError("the calibrator is not fitted: call fit with held-out rows first")


@contextmanager
def _catching(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Yield a dictionary of the input of each layer that runs inside, in that order; then remove the hooks."""
    caught: dict[str, Tensor] = {}

    def catch(name: str, _layer: nn.Module, args: tuple[Any, ...]) -> None:
        caught.pop(name, None)
        caught[name] = args[0]

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_pre_hook(partial(catch, name)))
        yield caught


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside; afterwards every part is in its former mode."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def _batches(inputs: Any, labels: Tensor, size: int) -> Iterable[tuple[Any, Tensor]]:
    if not isinstance(inputs, Tensor) or len(inputs) != len(labels):
        raise ValueError(
            "inputs and labels must be tensors with the same number of rows: for other inputs use a loader"
        )
    return zip(inputs.split(size), labels.split(size), strict=True)


def _arguments(inputs: Any, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), {name: _moved(value, device) for name, value in inputs.items()}
    many = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return tuple(_moved(value, device) for value in many), {}


def _moved(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
