"""Likelihood losses as criteria of skorch's nets, for scikit-learn's searches and pipelines."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor  # type: ignore[import-untyped,unused-ignore]
from skorch.callbacks import Callback  # type: ignore[import-untyped,unused-ignore]
from skorch.utils import to_tensor  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor, nn
from torch.distributions import Distribution

from likely.integrations.monitor import Caught
from likely.losses import BernoulliLoss, LikelihoodLoss, NormalLoss, SoftmaxLoss
from likely.optim import outputs_of, param_groups
from likely.parameters import Data

__all__ = ["LikelihoodHistory", "LikelihoodNetClassifier", "LikelihoodNetRegressor"]


class LikelihoodHistory(Callback):
    """A skorch callback that records the likelihood parameters in the net's history, once per epoch.

    They are named ``likelihood/scale`` and so on. Predicted parameters are recorded by their mean, minimum and maximum
    over the last batch of the epoch. :class:`LikelihoodNetRegressor` and :class:`LikelihoodNetClassifier` have this
    callback already; add it to other nets.

    >>> from skorch import NeuralNetRegressor
    >>> import torch, likely
    >>> from likely.integrations.skorch import LikelihoodHistory
    >>> net = NeuralNetRegressor(torch.nn.Linear, criterion=likely.NormalLoss, callbacks=[LikelihoodHistory()])
    """

    _caught = Caught(nn.Module())

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        """Attach to the parameters; skorch calls this.

        Args:
            net: the net.
            **kwargs: what skorch passes besides; not used.
        """
        self._caught.remove()
        self._caught = Caught(net.criterion_)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Record the parameters; skorch calls this.

        Args:
            net: the net.
            **kwargs: what skorch passes besides; not used.
        """
        for key, number in self._caught.numbers().items():
            net.history.record(key, number)

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        """Remove all hooks; skorch calls this.

        Args:
            net: the net.
            **kwargs: what skorch passes besides; not used.
        """
        self._caught.remove()


class _LikelihoodNet:
    """What both nets add to skorch's: φ's learning rate, features, and φ in the history."""

    usual: ClassVar[type[LikelihoodLoss]] = NormalLoss

    def __init__(
        self,
        module: Any,
        *args: Any,
        criterion: Any = None,
        features: str | None = None,
        multiplier: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.features, self.multiplier = features, multiplier
        criterion = self.usual if criterion is None else criterion
        super().__init__(module, *args, criterion=criterion, **kwargs)  # type: ignore[call-arg]

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        first, last = super()._default_callbacks[:-1], super()._default_callbacks[-1:]  # type: ignore[misc]
        return [*first, ("likelihood", LikelihoodHistory()), *last]  # before the callback that prints

    def initialize_criterion(self: Any) -> Any:
        """Make a new loss for every fit, so that none starts from the parameters of the last; skorch calls this.

        Returns:
            The net itself.

        Raises:
            ValueError: if the loss has a Data parameter, which needs row numbers.
        """
        options = copy.deepcopy(self.get_params_for("criterion"))
        self.criterion_ = self.initialized_instance(copy.deepcopy(self.criterion), options)
        if any(isinstance(part, Data) for part in self.criterion_.modules()):
            raise ValueError(
                "Data parameters need row numbers, which skorch does not pass: use Global or Predicted, or train with "
                "likely.integrations.lightning"
            )
        return self

    def get_params_for_optimizer(self: Any, prefix: str, named_parameters: Any) -> Any:
        """Make parameter groups, with φ at the rates of :func:`likely.param_groups` and without weight decay.

        Args:
            prefix: prefix of the optimizer's options, as in skorch.
            named_parameters: names and parameters to optimize, as in skorch.

        Returns:
            The positional and the keyword arguments of the optimizer.
        """
        (groups,), options = super().get_params_for_optimizer(prefix, named_parameters)  # type: ignore[misc]
        of_loss = param_groups([], self.criterion_, options["lr"], multiplier=self.multiplier)
        owner: dict[int, dict[str, Any]] = {id(p): group for group in of_loss for p in group["params"]}
        of_model: dict[str, Any] = {}
        split = [
            {**kind, **group, "params": [p for p in group["params"] if owner.get(id(p), of_model) is kind]}
            for group in groups
            for kind in (of_model, *of_loss)
        ]
        return ([group for group in split if group["params"]],), options

    def infer(self: Any, x: Any, **fit_params: Any) -> Any:
        """Call the module on a batch, and read the features.

        Args:
            x: the inputs of a batch.
            **fit_params: further arguments of the module, as in skorch.

        Returns:
            The module's output; with ``features`` a pair of it and the features.
        """
        if self.features is None:
            return super().infer(x, **fit_params)  # type: ignore[misc]
        if self.features == "input":
            return super().infer(x, **fit_params), to_tensor(x, device=self.device)  # type: ignore[misc]
        with outputs_of(self.module_, self.features) as caught:
            prediction = super().infer(x, **fit_params)  # type: ignore[misc]
        return prediction, caught[-1]

    def get_loss(self: Any, y_pred: Any, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:
        """Compute the likelihood loss of a batch.

        Args:
            y_pred: what :meth:`infer` returned.
            y_true: targets; for losses other than softmax they are reshaped to the prediction.
            X: inputs of the batch; not used.
            training: whether the batch is one of training; not used.

        Returns:
            The loss, a scalar.
        """
        prediction, features = y_pred if isinstance(y_pred, tuple) else (y_pred, None)
        y_true = to_tensor(y_true, device=self.device)
        if not isinstance(self.criterion_, SoftmaxLoss) and y_true.numel() == prediction.numel():
            y_true = y_true.reshape(prediction.shape).to(prediction.dtype)
        return self.criterion_(prediction, y_true, features=features)

    @torch.no_grad()
    def predict_dist(self: Any, X: Any) -> Distribution:
        """Predict the distribution of each row's target.

        Args:
            X: inputs of shape (rows, …), as ``predict`` takes them.

        Returns:
            A ``torch.distributions.Distribution`` whose batch shape is that of the prediction; for a softmax, (rows,).
        """
        output = self.forward(X, training=False, device=self.device)
        prediction, features = output if isinstance(output, tuple) else (output, None)
        return self.criterion_.eval().distribution(prediction, features=features)


class LikelihoodNetRegressor(_LikelihoodNet, NeuralNetRegressor):
    """skorch's ``NeuralNetRegressor`` with a likelihood loss, whose parameters are learned.

    Arguments such as ``criterion__scale`` go to the loss, and searches may choose among losses by ``criterion``.
    Targets may be a vector. Besides ``predict`` there is ``predict_dist``.

    See also :class:`LikelihoodNetClassifier`, and :class:`likely.tabular.NetworkRegressor`, which needs no skorch.

    Args:
        module: a module class or instance, as in skorch.
        *args: further positional arguments of skorch's ``NeuralNetRegressor``.
        criterion: a likelihood loss, class or instance; None is :class:`likely.NormalLoss`.
        features: what Predicted parameters read: the name of a submodule or ``"input"``; None where the module returns
            ``(prediction, features)``.
        multiplier: learning rate of the likelihood parameters relative to ``lr``; by default (None) as in
            :func:`likely.param_groups`.
        **kwargs: further keyword arguments of skorch's ``NeuralNetRegressor``, such as ``lr`` and ``max_epochs``.

    >>> import numpy as np, torch, likely
    >>> from likely.integrations.skorch import LikelihoodNetRegressor
    >>> _ = torch.manual_seed(0)
    >>> X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    >>> y = X[:, 0] + 0.5 * X[:, 2] ** 2
    >>> net = LikelihoodNetRegressor(
    ...     torch.nn.Linear(3, 1), criterion=likely.NormalLoss, lr=0.1, max_epochs=20, verbose=0
    ... )
    >>> scale = net.fit(X, y).history[:, "likelihood/scale"]
    >>> scale[-1] < scale[0]
    True
    """

    def check_data(self, X: Any, y: Any) -> None:
        """Accept any data, where skorch would reject a vector of targets.

        Args:
            X: inputs.
            y: targets.
        """

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute R², the coefficient of determination, as scikit-learn's regressors do.

        Args:
            X: inputs of shape (rows, …).
            y: targets of shape (rows,) or (rows, targets).
            sample_weight: one weight per row; None weights all rows equally.

        Returns:
            R², at most 1.
        """
        y = np.asarray(y)
        return float(super().score(X, y.reshape(len(y), -1), sample_weight))


class LikelihoodNetClassifier(_LikelihoodNet, NeuralNetClassifier):
    """skorch's ``NeuralNetClassifier`` with a likelihood loss, whose temperature is learned.

    The module returns logits; ``predict_proba`` divides them by their temperature.

    See also :class:`LikelihoodNetRegressor`, and :class:`likely.tabular.NetworkClassifier`, which needs no skorch.

    Args:
        module: a module class or instance, as in skorch.
        *args: further positional arguments of skorch's ``NeuralNetClassifier``.
        criterion: a likelihood loss, class or instance; None is :class:`likely.SoftmaxLoss`.
        features: what Predicted parameters read: the name of a submodule or ``"input"``; None where the module returns
            ``(logits, features)``.
        multiplier: learning rate of the likelihood parameters relative to ``lr``; by default (None) as in
            :func:`likely.param_groups`.
        **kwargs: further keyword arguments of skorch's ``NeuralNetClassifier``, such as ``lr`` and ``max_epochs``.

    >>> import numpy as np, torch, likely
    >>> from likely.integrations.skorch import LikelihoodNetClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    >>> net = LikelihoodNetClassifier(torch.nn.Linear(3, 2), max_epochs=3, verbose=0).fit(X, (X[:, 0] > 0).astype(int))
    >>> net.predict_proba(X[:5]).shape
    (5, 2)
    """

    usual = SoftmaxLoss

    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class.

        Args:
            X: inputs of shape (rows, …).

        Returns:
            Array of shape (rows, classes).
        """
        probabilities: Any = self.predict_dist(X).probs  # type: ignore[attr-defined]
        if isinstance(self.criterion_, BernoulliLoss):
            probabilities = probabilities.reshape(-1, 1)
            probabilities = torch.cat([1 - probabilities, probabilities], 1)
        return probabilities.cpu().numpy()
