"""A loader that says which rows come next, so that they can be fetched while this batch trains."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from likely.indexed import IndexedDataset
from likely.row_store._store import RowStore


class LookAhead:
    """Runs a loader one batch ahead and has every table in ``module`` fetch the rows of the batch to come.

    The rows may be in the host's memory or in a file; a table on the device needs no looking ahead. The number of
    a row is found where :class:`likely.IndexedDataset` puts it, or by ``index``, a function of the batch. Leave it
    on the CPU: from a GPU it would have to come back.

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
                "the loader's batches do not say which rows they hold: wrap its dataset in likely.IndexedDataset, or "
                "say where the row numbers are, as in index=lambda batch: batch[-1]"
            )
        self.index = index or _last

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
        finally:  # who leaves the loop early does not come for the next batch
            for table in tables:
                table.drop_prefetched()


def _is_indexed(dataset: Any) -> bool:
    """Also a subset of an indexed dataset, whose numbers are those of the whole."""
    return isinstance(dataset, IndexedDataset) or (hasattr(dataset, "dataset") and _is_indexed(dataset.dataset))


def _last(batch: Any) -> Any:
    return batch["index"] if isinstance(batch, Mapping) else batch[-1]
