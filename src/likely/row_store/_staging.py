"""Rows that are not on the model's device: read in advance, and written back in the background.

One thread reads and writes the store, in the order of the calls. The rows of the next batch are read while the present
one is trained on, so that a row in both is read too early: every write is also stored with the batches requested before
it, and applied to their rows before these are used.

A forked process does not have this thread: all work is finished before a fork, and the child starts its own thread.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from likely.row_store._memory import Pair, Store

_BEHIND = 8  # largest number of unfinished writes


class Staging:
    """A :class:`Store` that reads rows of another, slower store on the CPU and returns them on ``device``."""

    device = torch.device("cpu")

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begin()

    def begin(self) -> None:
        """Start without any reads or writes."""
        self._turn = threading.RLock()  # for the computing threads; the one that reads and writes needs no lock
        self._ahead: deque[_Batch] = deque()  # prefetched, in the order of their use
        self._in_use = WeakTensorKeyDictionary()  # batches by their index, as long as it exists
        self._writes: deque[Future[None]] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._stream: torch.cuda.Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self.store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prefetch(self, index: Tensor) -> None:
        """Start reading the rows of a later batch."""
        with self._turn:
            self._ahead.append(self._request(index))

    def read(self, index: Tensor) -> Pair:
        """Return the rows of ``index`` after all writes so far, prefetched or not."""
        with self._turn:
            self._check_writes(wait=False)
            batch = self._in_use.get(index) or self._prefetched(index) or self._request(index)
            if torch.is_grad_enabled():  # a step will follow that needs them again
                self._in_use[index] = batch
            return batch.rows()

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Pass the rows to the writing thread, and store them with the batches that were read before."""
        with self._turn:
            self._check_writes(wait=len(self._writes) >= _BEHIND)
            self._in_use.pop(index, None)
            for batch in (*self._ahead, *self._in_use.values()):
                batch.written_since.append((index.to(self.device, non_blocking=True), new))
            # Copied, because the caller may reuse the index for the next batch.
            places = index.to("cpu", non_blocking=True, copy=True)
            if new.rows.device.type == "cpu":
                self._writes.append(self._submit(self.store.write, places, new, old))
            else:
                host = Pair(*(tensor.to("cpu", non_blocking=True) for tensor in new))
                copied = torch.cuda.current_stream(new.rows.device).record_event()
                self._writes.append(self._submit(self._write_after, copied, places, host))

    def drop_prefetched(self) -> None:
        """Discard prefetched batches that will not be used."""
        with self._turn:
            self._ahead.clear()

    def flush(self) -> None:
        """Wait until all writes are finished."""
        with self._turn:
            self._check_writes(wait=True)

    def wait(self) -> None:
        """Wait until all reads and writes are finished; their errors are raised later, when the rows are read."""
        wait([*self._writes, *(batch.reading for batch in (*self._ahead, *self._in_use.values()))])

    def forget(self) -> None:
        """Discard prefetched rows, because the rows in the store were replaced."""
        self.flush()
        self.begin()

    def _prefetched(self, index: Tensor) -> "_Batch | None":
        """Return the batch prefetched for this index; discard the batches before it."""
        if index.device.type == "cpu":
            for skipped, batch in enumerate(self._ahead):
                if torch.equal(batch.index, index):
                    for _ in range(skipped + 1):
                        self._ahead.popleft()
                    return batch
        elif self._ahead and len(self._ahead[0].index) == len(index):
            # Compared on the device, so that the host does not wait.
            batch = self._ahead.popleft()
            same = (batch.index.to(index.device, non_blocking=True) == index).all()
            torch._assert_async(same, "the batches do not come in the order in which they were prefetched")
            return batch
        return None

    def _request(self, index: Tensor) -> "_Batch":
        # Copied, because the caller may change its index, and rows are held as long as the index exists.
        index = index.to("cpu", copy=True)
        return _Batch(index, self._submit(self._fetch, index), self.device)

    def _fetch(self, index: Tensor) -> "tuple[Pair, torch.cuda.Event | None]":
        rows, device = self.store.read(index), self.device
        if device.type == "cpu":
            return rows, None
        self._stream = self._stream or torch.cuda.Stream(device)
        with torch.cuda.stream(self._stream):
            copies = Pair(*(t.pin_memory().to(device, non_blocking=True) for t in rows))
            return copies, self._stream.record_event()

    def _write_after(self, copied: torch.cuda.Event, index: Tensor, new: Pair) -> None:
        copied.synchronize()
        self.store.write(index, new)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        self._thread = self._thread or ThreadPoolExecutor(1, "likely-table")
        return self._thread.submit(work, *arguments)

    def _check_writes(self, *, wait: bool) -> None:
        """Raise errors of finished writes, or of all writes with ``wait``: a full disk must not go unnoticed."""
        while self._writes and (wait or self._writes[0].done()):
            try:
                self._writes.popleft().result()
            except BaseException:  # rows in memory may hold changes that were never written
                self.drop_prefetched()
                self._in_use = WeakTensorKeyDictionary()
                raise


class _Batch:
    """Requested rows, which may still be being read, and what was written to the table since."""

    def __init__(self, index: Tensor, reading: "Future[tuple[Pair, torch.cuda.Event | None]]", device: torch.device):
        self.index, self.reading, self.device = index, reading, device
        self.written_since: list[tuple[Tensor, Pair]] = []

    def rows(self) -> Pair:
        rows, arrived = self.reading.result()
        if arrived is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(arrived)
            for tensor in rows:
                tensor.record_stream(stream)
        index = self.index.to(self.device, non_blocking=True)
        for written, new in self.written_since:
            rows = _overwritten(index, rows, written, new)
        return rows


def _overwritten(index: Tensor, rows: Pair, written: Tensor, new: Pair) -> Pair:
    """Replace the rows that were written since, with fixed shapes, so that the host need not wait."""
    ordered, order = written.sort()
    nearest = torch.searchsorted(ordered, index).clamp(max=len(ordered) - 1)
    hit, source = ordered[nearest] == index, order[nearest]

    def newer(old: Tensor, fresh: Tensor) -> Tensor:
        if not len(old):
            return old
        return torch.where(hit.view(-1, *[1] * (old.ndim - 1)), fresh.index_select(0, source), old)

    return Pair(*map(newer, rows, new))
