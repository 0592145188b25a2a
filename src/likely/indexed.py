"""A dataset that adds the row number to every item."""

import operator
from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset

__all__ = ["IndexedDataset"]


class IndexedDataset(Dataset[Any]):
    """A map-style dataset whose items have their row number appended, for :class:`likely.Data`.

    A tuple or list gets a last element, a mapping the key ``"index"``; any other item becomes a pair.

    Args:
        dataset: map-style dataset, with ``__getitem__`` and ``__len__``.

    Raises:
        TypeError: the dataset is not map-style.

    See Also:
        :class:`~likely.Data`, a parameter with one value per row.

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
        number = operator.index(index)  # an error for a slice, whose rows would have one number
        number += len(self) if number < 0 else 0
        item = self.dataset[index]
        if isinstance(item, Mapping):
            if "index" in item:
                raise ValueError("the dataset's items have a key 'index' already: rename it")
            return {**item, "index": number}
        return (*item, number) if isinstance(item, tuple | list) else (item, number)
