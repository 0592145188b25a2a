"""Rows that are not where the model computes: read ahead of need, written back behind it.

One thread does all reading and writing of the store, in the order in which it was asked. The rows of the next
batch are read while this one trains, so a row that is in both is read too early: what is written after rows were
lent is noted with them, and put in place before they are used.

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

from likely.row_store._fork import watch
from likely.row_store._memory import Pair, Store

_BEHIND = 8  # writes under way before the next one waits


class Staging:
    """A :class:`Store` for rows of another, slower store on the CPU, handed out on ``device``."""

    device = torch.device("cpu")

    def __init__(self, store: Store) -> None:
        self.store = store
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._turn = threading.RLock()  # of the threads that compute; the one that reads and writes needs none
        self._ahead: deque[_Lent] = deque()
        self._lent = WeakTensorKeyDictionary()  # by the index they were read for, as long as somebody holds it
        self._writes: deque[Future[None]] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._stream: torch.cuda.Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self.store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prefetch(self, index: Tensor, device: torch.device) -> None:
        """Begin to read the rows of a batch to come."""
        with self._turn:
            self.device = device
            self._ahead.append(self._ask(index))

    def read(self, index: Tensor) -> Pair:
        """The rows of ``index`` as they are after all that was written, prefetched or not."""
        with self._turn:
            self._settle(wait=False)
            lent = self._lent.get(index) or self._prefetched(index) or self._ask(index)
            if torch.is_grad_enabled():  # a step will follow, and need them again
                self._lent[index] = lent
            return lent.pair()

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Hand the rows to the thread that writes; whoever holds older ones is told."""
        with self._turn:
            self._settle(wait=len(self._writes) >= _BEHIND)
            self._lent.pop(index, None)
            for lent in (*self._ahead, *self._lent.values()):
                lent.later.append((index.to(self.device, non_blocking=True), new))
            # A copy: the caller may fill the same index with the next batch's numbers.
            host = [index.to("cpu", non_blocking=True, copy=True), *(t.to("cpu", non_blocking=True) for t in new)]
            if new.rows.device.type == "cpu":
                self._writes.append(self._submit(self.store.write, host[0], new, old))
            else:
                done = torch.cuda.current_stream(new.rows.device).record_event()
                self._writes.append(self._submit(self._write_after, done, host))

    def drop_prefetched(self) -> None:
        """Forget batches that will not come."""
        with self._turn:
            self._ahead.clear()

    def flush(self) -> None:
        """Wait until everything is written."""
        with self._turn:
            self._settle(wait=True)

    def before_fork(self) -> None:
        """Wait until nothing is under way; what went wrong is raised later, where the rows are asked for."""
        wait([*self._writes, *(lent.coming for lent in (*self._ahead, *self._lent.values()))])

    def in_child(self) -> None:
        """Begin anew, with a thread of this process."""
        self._begin()

    def forget(self) -> None:
        """Drop rows read ahead: others have taken their place in the store."""
        self.flush()
        self._begin()

    def _prefetched(self, index: Tensor) -> "_Lent | None":
        """The batch read ahead for this index; batches before it were skipped."""
        if index.device.type == "cpu":
            for skipped, lent in enumerate(self._ahead):
                if torch.equal(lent.index, index):
                    for _ in range(skipped + 1):
                        self._ahead.popleft()
                    return lent
        elif self._ahead and len(self._ahead[0].index) == len(index):
            # To compare here would make the host wait; the device compares when it gets there.
            lent = self._ahead.popleft()
            same = (lent.index.to(index.device, non_blocking=True) == index).all()
            torch._assert_async(same, "the batches do not come in the order in which they were prefetched")
            return lent
        return None

    def _ask(self, index: Tensor) -> "_Lent":
        # A copy: the caller's own may change, and rows lent for it are kept as long as it lives.
        index = index.to("cpu", copy=True)
        return _Lent(index, self._submit(self._fetch, index), self.device)

    def _fetch(self, index: Tensor) -> "tuple[Pair, torch.cuda.Event | None]":
        found, device = self.store.read(index), self.device
        if device.type == "cpu":
            return found, None
        self._stream = self._stream or torch.cuda.Stream(device)
        with torch.cuda.stream(self._stream):
            there = Pair(*(t.pin_memory().to(device, non_blocking=True) for t in found))
            return there, self._stream.record_event()

    def _write_after(self, done: torch.cuda.Event, host: list[Tensor]) -> None:
        done.synchronize()
        self.store.write(host[0], Pair(*host[1:]))

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        self._thread = self._thread or ThreadPoolExecutor(1, "likely-table")
        return self._thread.submit(work, *arguments)

    def _settle(self, *, wait: bool) -> None:
        """Raise what went wrong in writing; a full disk must not pass in silence."""
        while self._writes and (wait or self._writes[0].done()):
            try:
                self._writes.popleft().result()
            except BaseException:  # rows lent may hold what never reached the store
                self.drop_prefetched()
                self._lent = WeakTensorKeyDictionary()
                raise


class _Lent:
    """Rows asked for, perhaps still under way, and what was written to the same table since."""

    def __init__(self, index: Tensor, coming: "Future[tuple[Pair, torch.cuda.Event | None]]", device: torch.device):
        self.index, self.coming, self.device = index, coming, device
        self.later: list[tuple[Tensor, Pair]] = []

    def pair(self) -> Pair:
        found, arrived = self.coming.result()
        if arrived is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(arrived)
            for tensor in found:
                tensor.record_stream(stream)
        index = self.index.to(self.device, non_blocking=True)
        for written, new in self.later:
            found = _overwritten(index, found, written, new)
        return found


def _overwritten(index: Tensor, lent: Pair, written: Tensor, new: Pair) -> Pair:
    """The rows lent, with those replaced that were written since; without a look at how many they are."""
    ordered, order = written.sort()
    at = torch.searchsorted(ordered, index).clamp(max=len(ordered) - 1)
    hit, source = ordered[at] == index, order[at]

    def newer(old: Tensor, fresh: Tensor) -> Tensor:
        if not len(old):
            return old
        return torch.where(hit.view(-1, *[1] * (old.ndim - 1)), fresh.index_select(0, source), old)

    return Pair(newer(lent.rows, new.rows), newer(lent.mean_square, new.mean_square))
