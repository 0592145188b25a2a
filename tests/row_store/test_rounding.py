"""bfloat16 rows are right in the mean, and a step too small to see is not lost."""

import torch

from likely.row_store import RowStore
from likely.row_store._store import rounded
from pairwise import together

STEP = torch.tensor(3)


@together("fraction", [0.0, 0.1, 0.5, 0.9])
@together("below", [1.0, -3.0, 1e-30, 3e30, 0.0])
def test_each_neighbour_has_the_chance_that_makes_the_mean_right(below, fraction):
    low = torch.tensor(below).bfloat16().float()
    high = (low.view(torch.int32) + 65536).view(torch.float32)
    value = low + fraction * (high - low)
    share = ((value - low) / (high - low)).double()  # what float32 made of the fraction
    n = 40_000
    found = rounded(value.expand(n), torch.bfloat16, torch.arange(n), STEP).float()
    assert set(found.tolist()) <= {low.item(), high.item()}
    up = (found == high).double().mean()
    assert abs(up - share) <= 4 * (share * (1 - share) / n).sqrt()


def test_chances_of_rows_elements_and_steps_are_unrelated():
    value = torch.tensor(1 + 2**-8)  # half way
    n, size = 400, 100
    draws = torch.stack(
        [rounded(value.expand(n, size), torch.bfloat16, torch.arange(n), torch.tensor(s)).float() for s in range(20)]
    )
    up = (draws > value).double() - 0.5
    assert abs(up.mean()) < 4 * 0.5 / up.numel() ** 0.5
    for axis in range(3):
        near = (up.narrow(axis, 1, up.shape[axis] - 1) * up.narrow(axis, 0, up.shape[axis] - 1)).mean() / 0.25
        assert abs(near) < 4 / up.numel() ** 0.5


def test_what_needs_no_rounding_is_left_alone():
    exact = torch.randn(1000).bfloat16()
    assert torch.equal(rounded(exact.float(), torch.bfloat16, torch.arange(1000), STEP), exact)
    assert rounded(torch.tensor([torch.inf, -torch.inf]), torch.bfloat16, torch.arange(2), STEP).isinf().all()
    full = torch.randn(10)
    assert torch.equal(rounded(full, torch.float32, torch.arange(10), STEP), full)


def test_small_steps_add_up():
    """A thousand steps of a hundredth of a unit: rounding to the nearest would stay where it is."""
    n = 500
    table = RowStore(torch.ones(n), dtype=torch.bfloat16, optimizer="sgd", lr=2**-7 / 100, clip=None)
    index = torch.arange(n)
    for _ in range(1000):
        table.step(index, -torch.ones(n))
    moved = table.rows.float() - 1
    torch.testing.assert_close(moved.mean().item(), 1000 * 2**-7 / 100, rtol=0.05, atol=0)
    twin = RowStore(torch.ones(n), dtype=torch.bfloat16, optimizer="sgd", lr=2**-7 / 100, clip=None)
    for _ in range(10):
        twin.step(index, torch.zeros(n))
    assert (twin.rows == 1).all()
