"""Rows that are not where the model computes: read ahead of need, written back behind it.

One thread does all reading and writing of the store, in the order in which it was asked. The rows of the next batch
are read while this one trains, so that a row in both is read too early: every write is noted with the batches that were
asked for before it, and put in place before their rows are used.

A forked process has no such thread: what is under way is ended before a fork, and the child begins with one of its own.
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

_BEHIND = 8  # writes under way before the next one waits


class Staging:
    """A :class:`Store` for rows of another, slower store on the CPU, handed out on ``device``."""

    device = torch.device("cpu")

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begin()

    def begin(self) -> None:
        """Begin with nothing under way."""
        self._turn = threading.RLock()  # of the threads that compute; the one that reads and writes needs none
        self._ahead: deque[_Batch] = deque()  # prefetched, in the order in which they are to come
        self._in_use = WeakTensorKeyDictionary()  # batches by their index, as long as somebody holds it
        self._writes: deque[Future[None]] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._stream: torch.cuda.Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self.store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prefetch(self, index: Tensor) -> None:
        """Begin to read the rows of a batch to come."""
        with self._turn:
            self._ahead.append(self._ask(index))

    def read(self, index: Tensor) -> Pair:
        """The rows of ``index`` as they are after all that was written, prefetched or not."""
        with self._turn:
            self._check_writes(wait=False)
            batch = self._in_use.get(index) or self._prefetched(index) or self._ask(index)
            if torch.is_grad_enabled():  # a step will follow, and need them again
                self._in_use[index] = batch
            return batch.rows()

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Hand the rows to the thread that writes, and note them with the batches that were read before."""
        with self._turn:
            self._check_writes(wait=len(self._writes) >= _BEHIND)
            self._in_use.pop(index, None)
            for batch in (*self._ahead, *self._in_use.values()):
                batch.written_since.append((index.to(self.device, non_blocking=True), new))
            # A copy: the caller may fill the same index with the next batch's numbers.
            places = index.to("cpu", non_blocking=True, copy=True)
            if new.rows.device.type == "cpu":
                self._writes.append(self._submit(self.store.write, places, new, old))
            else:
                host = Pair(*(tensor.to("cpu", non_blocking=True) for tensor in new))
                copied = torch.cuda.current_stream(new.rows.device).record_event()
                self._writes.append(self._submit(self._write_after, copied, places, host))

    def drop_prefetched(self) -> None:
        """Forget batches that will not come."""
        with self._turn:
            self._ahead.clear()

    def flush(self) -> None:
        """Wait until everything is written."""
        with self._turn:
            self._check_writes(wait=True)

    def wait(self) -> None:
        """Wait until nothing is under way; what went wrong is raised later, where the rows are asked for."""
        wait([*self._writes, *(batch.reading for batch in (*self._ahead, *self._in_use.values()))])

    def forget(self) -> None:
        """Drop rows read ahead: others have taken their place in the store."""
        self.flush()
        self.begin()

    def _prefetched(self, index: Tensor) -> "_Batch | None":
        """The batch read ahead for this index; batches before it were skipped."""
        if index.device.type == "cpu":
            for skipped, batch in enumerate(self._ahead):
                if torch.equal(batch.index, index):
                    for _ in range(skipped + 1):
                        self._ahead.popleft()
                    return batch
        elif self._ahead and len(self._ahead[0].index) == len(index):
            # To compare here would make the host wait; the device compares when it gets there.
            batch = self._ahead.popleft()
            same = (batch.index.to(index.device, non_blocking=True) == index).all()
            torch._assert_async(same, "the batches do not come in the order in which they were prefetched")
            return batch
        return None

    def _ask(self, index: Tensor) -> "_Batch":
        # A copy: the caller's own may change, and rows read for it are kept as long as it lives.
        index = index.to("cpu", copy=True)
        return _Batch(index, self._submit(self._fetch, index), self.device)

    def _fetch(self, index: Tensor) -> "tuple[Pair, torch.cuda.Event | None]":
        rows, device = self.store.read(index), self.device
        if device.type == "cpu":
            return rows, None
        self._stream = self._stream or torch.cuda.Stream(device)
        with torch.cuda.stream(self._stream):
            there = Pair(*(t.pin_memory().to(device, non_blocking=True) for t in rows))
            return there, self._stream.record_event()

    def _write_after(self, copied: torch.cuda.Event, index: Tensor, new: Pair) -> None:
        copied.synchronize()
        self.store.write(index, new)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        self._thread = self._thread or ThreadPoolExecutor(1, "likely-table")
        return self._thread.submit(work, *arguments)

    def _check_writes(self, *, wait: bool) -> None:
        """Raise what went wrong in writing, so far or, after a wait, at all: a full disk must not pass in silence."""
        while self._writes and (wait or self._writes[0].done()):
            try:
                self._writes.popleft().result()
            except BaseException:  # rows read may hold what never reached the store
                self.drop_prefetched()
                self._in_use = WeakTensorKeyDictionary()
                raise


class _Batch:
    """Rows asked for, perhaps still being read, and what was written to the table since."""

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
    """The rows, with those replaced that were written since; without a look at how many they are."""
    ordered, order = written.sort()
    at = torch.searchsorted(ordered, index).clamp(max=len(ordered) - 1)
    hit, source = ordered[at] == index, order[at]

    def newer(old: Tensor, fresh: Tensor) -> Tensor:
        if not len(old):
            return old
        return torch.where(hit.view(-1, *[1] * (old.ndim - 1)), fresh.index_select(0, source), old)

    return Pair(*map(newer, rows, new))
