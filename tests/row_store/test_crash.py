"""Death at every single system call, in the middle of a write too, and at every one of the recovery after it."""

import os

import pytest
import torch

from likely.row_store import _file, _journal
from likely.row_store._file import File
from likely.row_store._format import Format
from likely.row_store._memory import Pair

FORM = Format(7, (2,), torch.float32, has_state=True, optimizer="rmsprop")
CALLS = ("pwrite", "ftruncate", "fsync", "replace")


class Killed(BaseException):
    """Not an error that anybody may catch and mend."""


class Dying:
    """The system calls that change files, until the one of the given number; a dead process makes no more."""

    def __init__(self, monkeypatch, number, torn):
        self.left, self.torn = number, torn
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name, real):
        def call(*arguments):
            self.left -= 1
            if self.left > 0:
                return real(*arguments)
            if self.left == 0 and self.torn and name == "pwrite":
                file, data, at = arguments
                real(file, bytes(data)[: len(data) // 2], at)
            raise Killed

        return call


def live(path, saves):
    """Five changes of overlapping rows, saved after the second and the fourth; ``saves`` grows with each."""
    file = File(path, FORM, torch.tensor([0.5, -1.0]))
    for step in range(5):
        index = torch.tensor([step, step + 1, step + 2])
        old = file.read(index)
        file.write(index, Pair(old.rows + 1, old.mean_square + 1), old if step % 3 else None)
        if step % 2:
            file.save()
            saves.append(step)
    file.close()


def states():
    rows, square = torch.tensor([0.5, -1.0]).repeat(7, 1), torch.zeros(7)
    yield rows.clone(), square.clone()
    for step in range(4):
        rows[step : step + 3] += 1
        square[step : step + 3] += 1
        if step % 2:
            yield rows.clone(), square.clone()


def content(path):
    file = File(path, FORM, torch.tensor([0.5, -1.0]))
    pairs = list(file.all())
    file.close()
    return torch.cat([p.rows for p in pairs]), torch.cat([p.mean_square for p in pairs])


@pytest.mark.parametrize("torn", [False, True], ids=["between writes", "in a write"])
def test_the_table_is_as_it_was_last_saved_wherever_the_process_died(torn, tmp_path, monkeypatch):
    monkeypatch.setattr(_file, "_CHUNK", 50)  # a few rows at a time
    monkeypatch.setattr(_journal, "CHUNK", 50)
    known, number, finished = list(states()), 0, False
    while not finished:
        number += 1
        path, saves = tmp_path / f"{number}.table", []
        with monkeypatch.context() as patch:
            Dying(patch, number, torn)
            try:
                live(path, saves)
                finished = True
            except Killed:
                pass
        for moment in range(1, 12):  # and again while the next process opens it
            with monkeypatch.context() as patch:
                Dying(patch, moment, torn)
                try:
                    content(path)
                except Killed:
                    continue
                break
        rows, square = content(path)
        matches = [k for k, (r, s) in enumerate(known) if torch.equal(rows, r) and torch.equal(square, s)]
        assert matches in ([len(saves)], [len(saves) + 1]), number  # the second: it died at the very end of a save
    assert number > 20
