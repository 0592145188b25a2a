"""Whatever is done to a table, and in whatever order, rows elsewhere are those of a table on the device."""

import random

import torch

from likely.row_store import RowStore
from pairwise import together

ROWS = 15


def build(store):
    return RowStore(torch.tensor([0.1, 0.2]).expand(ROWS, 2), store=store, lr=0.2, weight_decay=0.01)


class Both:
    """The table under test and its reference, to which the same is done."""

    def __init__(self, path, in_file):
        self.path, self.in_file = path, in_file
        self.table, self.reference = build(path if in_file else "host"), build("device")
        self.open_losses = []

    def batch(self, luck):
        return torch.tensor([luck.randrange(ROWS) for _ in range(luck.randint(1, 8))])

    def step(self, luck):
        index, by = self.batch(luck), luck.uniform(-2, 2)
        for table in (self.table, self.reference):
            (table(index).square().sum() * by).backward()

    def look(self, luck):
        with torch.no_grad():
            index = self.batch(luck)
            assert torch.equal(self.table(index), self.reference(index))

    def forward(self, luck):
        """Losses that are differentiated later, or never."""
        index = self.batch(luck)
        self.open_losses.append([table(index).sum() for table in (self.table, self.reference)])

    def backward(self, luck):
        if self.open_losses:
            for loss in self.open_losses.pop(luck.randrange(len(self.open_losses))):
                loss.backward()

    def reopen(self, luck):
        """The table in its file as it is, and the one in memory from its state."""
        self.open_losses.clear()
        if self.in_file:
            self.table = build(self.path)
        else:
            state, self.table = self.table.state_dict(), build("host")
            self.table.load_state_dict(state)

    def copy_state(self, luck):
        if not self.in_file:
            self.table.load_state_dict(self.table.state_dict())


@together("in_file", [True, False], ids=["file", "host"])
@together("seed", range(5))
def test_a_random_history(in_file, seed, tmp_path):
    luck, both = random.Random(seed), Both(tmp_path / "rows.table", in_file)
    deeds = [Both.step, Both.step, Both.look, Both.forward, Both.backward, Both.reopen]
    for _ in range(120):
        luck.choice([*deeds, Both.copy_state])(both, luck)
        if luck.random() < 0.2:
            assert torch.equal(both.table.rows, both.reference.rows)
            assert torch.equal(both.table.mean_square, both.reference.mean_square)
    assert torch.equal(both.table.rows, both.reference.rows)
