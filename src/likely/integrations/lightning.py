"""Likelihood losses in Lightning: a module that trains a model with its loss, and a callback that logs φ."""

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from likely._validation import check_positive
from likely.integrations.monitor import Caught
from likely.optim import Supervised, param_groups

__all__ = ["LikelihoodModule", "LikelihoodMonitor"]


class LikelihoodModule(LightningModule):
    """A model and its likelihood loss as a LightningModule, ready for a Lightning ``Trainer``.

    Batches are ``(inputs, target)`` or, for :class:`likely.Data`, ``(inputs, target, index)`` as
    :class:`likely.IndexedDataset` returns them; override :meth:`unpack` for others. The module logs ``train_loss``,
    ``val_loss`` and ``test_loss``; ``Trainer.predict`` returns the predictive distribution of every batch. Checkpoints
    include the rows of Data parameters.

    See also :class:`likely.Supervised`, the same without Lightning, and :class:`LikelihoodMonitor`.

    Args:
        model: any module.
        loss_fn: any likelihood loss.
        lr: learning rate of the model.
        features: what Predicted parameters read, as in :class:`likely.Supervised`: the name of a submodule,
            ``"input"``, or a function of the inputs; None if the model returns ``(prediction, features)``.
        optimizer: function of parameter groups that returns the optimizer: a class of ``torch.optim`` or a
            ``functools.partial``.
        multiplier: learning rate of the likelihood parameters relative to ``lr``; by default (None) as in
            :func:`likely.param_groups`.
        weight_decay: weight decay of the model; likelihood parameters have none.
        clip: norm to which the gradient of the likelihood parameters is clipped; None does not clip. The Trainer's
            clipping is separate.

    >>> import torch, warnings, likely
    >>> from lightning.pytorch import Trainer
    >>> from likely.integrations.lightning import LikelihoodModule
    >>> warnings.simplefilter("ignore")    # Lightning advises more workers for this loader
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(64, 3)
    >>> loader = torch.utils.data.DataLoader(list(zip(x, x[:, :1])), batch_size=64)
    >>> module = LikelihoodModule(torch.nn.Linear(3, 1), likely.NormalLoss(), lr=0.1)
    >>> quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    >>> Trainer(max_epochs=20, accelerator="cpu", **quiet).fit(module, loader, loader)
    >>> bool(module.loss_fn.scale.value < 1)
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: nn.Module,
        lr: float = 1e-3,
        *,
        features: str | Callable[[Any], Tensor] | None = None,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
        multiplier: float | None = None,
        weight_decay: float = 0.0,
        clip: float | None = 1.0,
    ) -> None:
        super().__init__()
        if clip is not None:
            check_positive("clip", clip)
        self.supervised = Supervised(model, loss_fn, features)
        # Lightning wraps this module in DDP, which reads the list from the module that it wraps.
        self._ddp_params_and_buffers_to_ignore = [
            f"supervised.{name}" for name in self.supervised._ddp_params_and_buffers_to_ignore
        ]
        self.optimizer, self.clip = optimizer, clip
        self.save_hyperparameters("lr", "multiplier", "weight_decay")

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self.supervised.model

    @property
    def loss_fn(self) -> nn.Module:
        """The likelihood."""
        return self.supervised.loss_fn

    def unpack(self, batch: Any) -> tuple[Any, Any, Tensor | None]:
        """Split a batch into inputs, target and row numbers; override it if your batches look different.

        Args:
            batch: what the data loader returns.

        Returns:
            The inputs, the target, and the row numbers of shape (rows,), or None without them.

        Raises:
            TypeError: if the batch is not a tuple or list of two or three.
        """
        if isinstance(batch, tuple | list) and len(batch) in (2, 3):
            return batch[0], batch[1], batch[2] if len(batch) == 3 else None
        raise TypeError(
            "a batch must be (inputs, target) or (inputs, target, index): override LikelihoodModule.unpack for others"
        )

    def forward(self, *inputs: Any) -> Any:
        """Call the model.

        Args:
            *inputs: the model's arguments.

        Returns:
            The model's prediction.
        """
        return self.supervised.predict(*inputs)[0]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Compute the loss of a training batch, and log it as ``train_loss``.

        Args:
            batch: what the data loader returns, as :meth:`unpack` takes it.
            batch_idx: number of the batch; not used.

        Returns:
            The loss, a scalar.
        """
        return self._loss("train", batch)

    def validation_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Compute the loss of a validation batch, and log it as ``val_loss``.

        Args:
            batch: what the data loader returns, as :meth:`unpack` takes it.
            batch_idx: number of the batch; not used.

        Returns:
            The loss, a scalar.
        """
        return self._loss("val", batch)

    def test_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Compute the loss of a test batch, and log it as ``test_loss``.

        Args:
            batch: what the data loader returns, as :meth:`unpack` takes it.
            batch_idx: number of the batch; not used.

        Returns:
            The loss, a scalar.
        """
        return self._loss("test", batch)

    def predict_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> Any:
        """Predict the distribution of each target in a batch.

        Args:
            batch: the inputs, or a tuple or list that starts with them.
            batch_idx: number of the batch; not used.
            dataloader_idx: number of the data loader; not used.

        Returns:
            A torch ``Distribution``; the prediction alone where the loss has no distribution.
        """
        inputs = batch[0] if isinstance(batch, tuple | list) else batch
        prediction, features = self.supervised.predict(inputs)
        distribution: Any = getattr(self.loss_fn, "distribution", None)
        return prediction if distribution is None else distribution(prediction, features=features)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Clip the gradient of the likelihood parameters, after it was unscaled.

        Args:
            optimizer: the optimizer that is about to step; not used.
        """
        # likely.clip_gradients acts before the optimizer's step, and Lightning differentiates inside it.
        if self.clip is not None:
            nn.utils.clip_grad_norm_([p for p in self.loss_fn.parameters() if p.requires_grad], self.clip)

    def configure_optimizers(self) -> Any:
        """Make one optimizer, with the groups of :func:`likely.param_groups`.

        Returns:
            The optimizer.
        """
        rates: Any = self.hparams
        return self.optimizer(
            param_groups(
                self.supervised, self.loss_fn, rates.lr, multiplier=rates.multiplier, weight_decay=rates.weight_decay
            )
        )

    def _loss(self, stage: str, batch: Any) -> Tensor:
        inputs, target, index = self.unpack(batch)
        loss: Tensor = self.supervised(inputs, target, index=index)
        size = len(target) if isinstance(target, Tensor) else None
        self.log(f"{stage}_loss", loss, prog_bar=stage != "test", batch_size=size)
        return loss


class LikelihoodMonitor(Callback):
    """A Lightning callback that logs the likelihood parameters of any module, and warns once when one collapses.

    A single value is logged under its name, ``likelihood/scale``; several as ``likelihood/scale/mean``, ``/min`` and
    ``/max``, for a Data or Predicted parameter over the last batch. A parameter has collapsed if a value is not finite,
    or if in every row it is at the floor of its constraint or is a temperature above 100. For your own training loop
    use :class:`likely.integrations.monitor.LikelihoodMonitor`.

    Args:
        every_n_steps: number of steps between logs; None is the Trainer's ``log_every_n_steps``.

    >>> from lightning.pytorch import Trainer
    >>> from likely.integrations.lightning import LikelihoodMonitor
    >>> trainer = Trainer(callbacks=[LikelihoodMonitor()], logger=False, enable_checkpointing=False, accelerator="cpu")
    """

    def __init__(self, every_n_steps: int | None = None) -> None:
        super().__init__()
        if every_n_steps is not None:
            check_positive("every_n_steps", every_n_steps)
        self.every_n_steps = every_n_steps
        self._caught = Caught(nn.Module())
        self._last_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach to the parameters; Lightning calls this.

        Args:
            trainer: the Trainer.
            pl_module: the module that it trains.
        """
        whole = getattr(pl_module, "loss_fn", pl_module)
        self._caught = Caught(whole if isinstance(whole, nn.Module) else pl_module)
        self._last_step = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """Log every ``every_n_steps``; Lightning calls this.

        Args:
            trainer: the Trainer.
            pl_module: the module that it trains.
            *args: what Lightning passes besides; not used.
        """
        every: int = self.every_n_steps or trainer.log_every_n_steps  # type: ignore[attr-defined]
        if trainer.global_step - self._last_step < every:
            return
        self._last_step = trainer.global_step
        self._report(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log a last time, and remove all hooks; Lightning calls this.

        Args:
            trainer: the Trainer.
            pl_module: the module that it trained.
        """
        if self._last_step != trainer.global_step:
            self._report(trainer)
        self._caught.remove()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Remove all hooks; Lightning calls this.

        Args:
            trainer: the Trainer.
            pl_module: the module that it trained.
            exception: the error that ended the training.
        """
        self._caught.remove()

    def _report(self, trainer: Trainer) -> None:
        numbers = self._caught.report()
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)
