"""A loader that prefetches the rows of the next batch during the training step of the current one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from likely.indexed import IndexedDataset
from likely.row_store._store import RowStore


class LookAhead:
    """A data loader that runs one batch ahead, so that every row store in ``module`` can prefetch rows.

    It is useful if rows are in the memory of the host or in a file; rows on the device need no prefetching.

    Args:
        loader: data loader, whose dataset is an :class:`likely.IndexedDataset` unless ``index`` is given.
        module: module that contains the row stores, such as a loss with :class:`~likely.Data` parameters.
        index: function of a batch that returns its row numbers, which should be on the CPU; by default (None) they are
            taken from where :class:`likely.IndexedDataset` puts them.

    Raises:
        TypeError: the row numbers of a batch are unknown.

    See Also:
        :class:`RowStore`.

    >>> import torch, likely
    >>> from likely.row_store import LookAhead
    >>> data = likely.IndexedDataset(torch.utils.data.TensorDataset(torch.randn(6, 3), torch.randn(6, 1)))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    >>> model, loss_fn = torch.nn.Linear(3, 1), likely.NormalLoss(scale=likely.Data(len(data), store="host"))
    >>> for x, y, index in LookAhead(loader, loss_fn):
    ...     loss_fn(model(x), y, index=index).backward()
    """

    def __init__(self, loader: Any, module: nn.Module, *, index: Callable[[Any], Tensor] | None = None) -> None:
        self.loader, self.module = loader, module
        if index is None and not _is_indexed(getattr(loader, "dataset", None)):
            raise TypeError(
                "the loader's batches have no row numbers: wrap its dataset in likely.IndexedDataset, or give a "
                "function that returns them, as in index=lambda batch: batch[-1]"
            )
        self.index = index or _last_item

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        tables = [module for module in self.module.modules() if isinstance(module, RowStore)]
        waiting: list[Any] = []
        try:
            for batch in self.loader:
                for table in tables:
                    table.prefetch(self.index(batch))
                yield from waiting
                waiting = [batch]
            yield from waiting
        finally:  # the loop may end before the next batch is used
            for table in tables:
                table.drop_prefetched()


def _is_indexed(dataset: Any) -> bool:
    """Whether items have row numbers; those of a subset are the numbers in the whole dataset."""
    return isinstance(dataset, IndexedDataset) or (hasattr(dataset, "dataset") and _is_indexed(dataset.dataset))


def _last_item(batch: Any) -> Any:
    return batch["index"] if isinstance(batch, Mapping) else batch[-1]
