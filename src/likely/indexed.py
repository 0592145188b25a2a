"""A dataset that also says which row it hands out."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset

__all__ = ["IndexedDataset"]


class IndexedDataset(Dataset[Any]):
    """Appends the row number to every item of a map-style dataset, for :class:`likely.Data`.

    A tuple or list gains a last element, a mapping the key ``"index"``, anything else becomes a pair.

    >>> import torch
    >>> from likely import IndexedDataset
    >>> data = torch.utils.data.TensorDataset(torch.zeros(3, 2), torch.ones(3))
    >>> IndexedDataset(data)[1]
    (tensor([0., 0.]), tensor(1.), 1)
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise TypeError(
                f"IndexedDataset needs a map-style dataset with __getitem__ and __len__, got {type(dataset).__name__}"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        number = index + len(self) if index < 0 else index
        item = self.dataset[index]
        if isinstance(item, Mapping):
            if "index" in item:
                raise ValueError("the dataset's items have a key 'index' already: rename it")
            return {**item, "index": number}
        return (*item, number) if isinstance(item, tuple | list) else (item, number)
