"""One value per training row."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions.transforms import Transform

from likely._typing import FilePath
from likely.parameters._parameter import Parameter, Start
from likely.row_store import RowStore


class Data(Parameter):
    """One value per training row; rows outside the training set have none.

    The values are stored in a :class:`likely.row_store.RowStore` and updated during ``backward``, so they are not
    passed to an optimizer. Under a ``GradScaler`` their gradients are scaled up: set ``clip=None`` and keep the default
    RMSProp, which does not depend on the scale; bfloat16 needs no scaler.

    Args:
        n: number of training rows.
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.
        fallback: value in evaluation mode: ``"mean"`` over all rows, or ``"init"``; by default (None) evaluation raises
            an error.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.
        store: where the values are: ``"device"`` (the default), with the model; ``"host"``, in the memory of the host;
            or the path of a file.
        dtype: floating-point type of the stored values; by default (None) torch's default. With ``torch.bfloat16``
            steps are rounded at random, so that small ones add up.
        sharded: whether each process of :mod:`torch.distributed` stores a part of the rows; by default each stores all.
        optimizer: rule of the updates: ``"rmsprop"`` (the default, as in the paper), ``"adagrad"`` or ``"sgd"``.
        lr: learning rate of the rows, 0.1 by default.
        decay: decay of RMSProp's running mean square, 0.9 by default.
        eps: added to the root of the mean square, 1e-8 by default.
        clip: largest norm of a row's gradient, 1 by default; None does not clip.
        weight_decay: pull of the raw values towards zero at each update of a row, 0 by default.

    Attributes:
        table: the :class:`likely.row_store.RowStore` with the unconstrained values, once a loss has the parameter.

    Raises:
        ValueError: ``n`` is not a positive integer, or ``fallback`` is unknown.

    See Also:
        :class:`~likely.IndexedDataset`, which adds row numbers to batches.

    >>> import torch, likely
    >>> loss_fn = likely.SoftmaxLoss(temperature=likely.Data(3, lr=0.5))
    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0]])
    >>> loss_fn(logits, torch.tensor([0, 1]), index=torch.tensor([0, 2])).backward()
    >>> loss_fn.temperature.value   # a right label cools, a wrong one heats, row 1 was not seen
    tensor([0.6065, 1.0000, 1.6487])
    """

    table: RowStore
    start: Tensor

    def __init__(
        self,
        n: int,
        shape: int | Sequence[int] = (),
        *,
        init: Start | None = None,
        constraint: Transform | None = None,
        fallback: str | None = None,
        validate_args: bool | None = None,
        store: FilePath = "device",
        dtype: torch.dtype | None = None,
        sharded: bool = False,
        optimizer: str = "rmsprop",
        lr: float = 0.1,
        decay: float = 0.9,
        eps: float = 1e-8,
        clip: float | None = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        if not hasattr(n, "__index__") or n < 1:
            raise ValueError(f"n must be the number of training rows, a positive integer; got {n!r}")
        if fallback not in (None, "mean", "init"):
            raise ValueError(f"fallback must be None, 'mean' or 'init'; got {fallback!r}")
        if fallback == "mean" and sharded:
            raise ValueError("fallback='mean' needs all rows, but a sharded table has only some of them: use 'init'")
        self.n, self.fallback = int(n), fallback
        self.table_options: dict[str, Any] = {
            "validate_args": validate_args,
            "store": store,
            "dtype": dtype,
            "sharded": sharded,
            "optimizer": optimizer,
            "lr": lr,
            "decay": decay,
            "eps": eps,
            "clip": clip,
            "weight_decay": weight_decay,
        }
        super().__init__(shape, init=init, constraint=constraint)

    def _build(self, raw: Tensor) -> None:
        # Rows that start from the data are stored relative to a start that they share, wherever they are stored.
        rows = (torch.zeros_like(raw) if self.from_data else raw).expand(self.n, *self.shape)
        self.table = RowStore(rows, **self.table_options)
        self.register_buffer("start", raw, persistent=self.from_data)

    def level(self) -> Tensor:
        """The raw initial value, to which rows that start from the data are added.

        Returns:
            The buffer ``start``.
        """
        return self.start

    def _shifted(self, rows: Tensor) -> Tensor:
        return rows + self.start if self.from_data else rows

    def _values_of(self, rows: Tensor) -> Tensor:
        return self._constrain(self._shifted(rows.to(torch.promote_types(rows.dtype, torch.float32))))

    @property
    def value(self) -> Tensor:
        """The constrained values of all rows, shape ``(n, *shape)``; of a sharded table those of this process."""
        self._check_ready()
        return self._values_of(self.table.rows)

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The raw values of the rows ``index``, for training.

        Args:
            features: ignored.
            index: row numbers, shape (batch,).

        Returns:
            A tensor of shape ``(batch, *shape)``, whose gradient updates the rows.
        """
        self._check_ready()
        return self._shifted(self.table(index))

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The values of the rows ``index`` in training, the fallback in evaluation.

        Args:
            features: ignored.
            index: row numbers, shape (batch,); not needed in evaluation.

        Returns:
            A tensor of shape ``(batch, *shape)`` in training, ``shape`` in evaluation.

        Raises:
            RuntimeError: in evaluation mode without a fallback.
        """
        if self.training:
            return self._constrain(self.unconstrained(features, index))
        self._check_ready()
        if self.fallback == "mean":
            sums = [self._values_of(rows.to(self.start.device)).sum(0) for rows, _ in self.table.chunks()]
            return (torch.stack(sums).sum(0) / self.n).to(self.start.device)
        if self.fallback == "init":
            return self._constrain(self.start)
        raise RuntimeError(
            "Data parameters belong to training rows and are undefined in evaluation: pass fallback='mean' or "
            "'init' to Data, or use Global or Predicted"
        )

    # As torch.compiler.disable does; the decorator itself would load the compiler with `import likely`.
    forward._torchdynamo_disable = True  # type: ignore[attr-defined]

    def extra_repr(self) -> str:
        """Show number of rows, shape, initial value and constraint in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        return ", ".join(filter(None, [f"n={self.n}", super().extra_repr()]))
