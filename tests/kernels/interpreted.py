"""The Triton kernels on the CPU, by Triton's interpreter: run by test_triton.py in a process of its own."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import product
from typing import Any

import torch

from kernels.cases import KINDS, assert_close, draw, in_double
from likely._kernels import Job, Layout, Location, Softmax, _location, _softmax


def location() -> None:
    for kind, plain in KINDS.items():
        for n, scales, shapes in ((1500, 1500, 1500), (20_000, 1, 1), (7, 7, 1)):
            inputs = draw(kind, n, scales=scales, shapes=shapes)
            tensors = [t.detach() for t in inputs]
            job = _location._job(kind, tensors, 0.0, 0.5)
            slopes = [torch.empty_like(t) for k, t in enumerate(tensors) if k != 1]
            total = _location_on_triton(job, tensors, slopes)
            value, (d_prediction, _, *rest) = in_double(plain, inputs, "sum", torch.tensor(0.5))
            assert_close(total, 0.5 * value, of=1e-5)
            for mine, theirs in zip(slopes, (d_prediction, *rest), strict=True):
                assert_close(mine, theirs, of=2e-4)
            upstream, losses = torch.randn(n), torch.empty(n)
            each, gradients = in_double(plain, inputs, "none", upstream)
            job = _location._job(kind, tensors, 0.0, None)
            _location_on_triton(job, tensors, [None] * len(slopes), losses)
            assert_close(losses, each, of=1e-5)
            _location_on_triton(job, tensors, slopes, None, upstream)
            for mine, theirs in zip(slopes, (gradients[0], *gradients[2:]), strict=True):
                assert_close(mine, theirs, of=2e-4)


def _location_on_triton(job, tensors, slopes, losses=None, upstream=None):
    from likely._kernels import _location_triton

    return _location_triton.location(job, tensors, slopes, losses, upstream)


def direct() -> None:
    """The short way's kernels give what those of the CPU give."""
    from likely._kernels import _softmax_triton

    soft, between = (1, 0.2, 1 / 0.893), (2, 0.0, 3.0)
    for kind in range(5):
        shaped = kind in (2, 3)
        for n, *layouts in (
            (40, Layout(1, 1, *soft), Layout(1, 1, *between)),
            (40, Layout(1, 40, *soft), Layout(1, 40, *between)),
            (40, Layout(5, 8, *soft), Layout(1, 5, *between)),
            (1100, Layout(1, 1), Layout(1, 1)),
        ):
            job = Location(kind, tuple(layouts[: 1 + shaped]), 0.3, 0.5, torch.add)
            raw = [torch.rand(own.numbers) + 0.5 for own in job.layouts]
            _compare_direct(job, _location_on_triton, (torch.randn(n), torch.rand(n), *raw))
    for classes, rows in ((2, 7), (10, 300), (10, 2000)):
        for layout in (Layout(1, 1, *soft), Layout(1, rows, *soft)):
            for mean, smoothing in ((True, 0.0), (False, 0.2)):
                target = torch.randint(classes, (rows,))
                target[1] = -100
                job = Softmax(layout, -100, smoothing, mean, 2.0, torch.add)
                tensors = (3 * torch.randn(rows, classes), target, torch.randn(layout.numbers))
                _compare_direct(job, _softmax_triton.softmax_of_few_classes, tensors)


def _compare_direct(job: Job, by_triton: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> None:
    mine, theirs = ([torch.empty_like(t) for k, t in enumerate(tensors) if k != 1] for _ in range(2))
    loss = by_triton(job, tensors, mine)
    loss, factor = loss if isinstance(loss, tuple) else (loss, None)
    expected, _ = job.run(tensors, theirs)
    assert_close(loss, expected, of=2e-5)
    for a, b in zip(mine, theirs, strict=True):
        assert_close(a if factor is None else a * factor, b, of=2e-4)


def rescale() -> None:
    from likely._kernels import _reduce_triton

    values = [torch.randn(n) for n in (3000, 1, 20, 5)]
    for factor in (1.0, 3.0):
        scaled = [v.clone() for v in values]
        for a, b in zip(scaled, values, strict=True):
            _reduce_triton.rescale_(a, torch.tensor(factor))
            torch.testing.assert_close(a, factor * b)


def softmax() -> None:
    from likely._kernels import _softmax_triton

    _softmax_triton.BLOCK = 256
    for classes in (300, 1000):
        for smoothing in (0.0, 0.1):
            for temperature in (torch.rand(5) + 0.5, torch.tensor(1.3)):
                logits, target = 4 * torch.randn(5, classes), torch.randint(0, classes, (5,))
                target[1] = -100
                if not smoothing:
                    logits[0, (target[0] + 1) % classes] = -torch.inf
                rows, factor, upstream = (target, temperature, -100, smoothing), torch.tensor(0.25), torch.randn(5)
                found, expected = torch.empty_like(logits), torch.empty_like(logits)
                each, slope = _softmax_triton.softmax_rows(logits, *rows, factor, None, found)
                compare((each.sum(), slope, found), (*_softmax._summed(logits, *rows, factor, expected), expected))
                in_place = logits.clone()
                again = _softmax_triton.softmax_rows(in_place, *rows, factor, None, in_place)
                compare((*again, in_place), (each, slope, found))
                norms, kept = torch.empty(5), target != -100
                each, slope = _softmax_triton.softmax_rows(logits, *rows, None, norms, None)
                by_torch = _softmax.by_torch(logits, *rows)
                compare([e[kept] for e in (each, norms, slope)], [e[kept] for e in by_torch[:3]])
                _softmax_triton.softmax_rows(logits, *rows, upstream, norms, found, forward=False)
                compare([found], [by_torch[3] * upstream[:, None]])


def rows_of_a_table() -> None:
    """A step in place is that of the formulas; one row may fill several blocks of places and of columns."""
    from likely.row_store import _rule_triton
    from likely.row_store._rule import Pair, Rule
    from likely.row_store._store import first_places, summed

    _rule_triton.MAX_COLUMNS = _rule_triton.TILE = 8
    for optimizer, _rule_triton.MAX_SEARCHED in product(("rmsprop", "adagrad", "sgd"), (0, 64)):
        for shape, clip, weight_decay in (((), 1.0, 0.1), ((), None, 0.0), ((3,), 1.0, 0.0), ((2, 10), None, 0.1)):
            rule = Rule(optimizer, 0.1, 0.9, 1e-8, clip, weight_decay)
            for batch, rows in ((1, 4), (8, 3), (45, 2), (45, 40)):
                index = torch.randint(0, rows, (batch,))
                state = torch.rand(rows).where(torch.arange(rows) != 2, 0.0) if rule.has_state else torch.empty(0)
                home = Pair(torch.randn(rows, *shape), state)
                grad = torch.randn(batch, *shape)
                grad[index == 1] = 0.0
                grad[index == 3] = 1e30
                grad[batch // 2].view(-1)[-1] = torch.nan
                old = Pair(*(t[index] if len(t) else t for t in home))
                expected = Pair(*(t.clone() for t in home))
                for t, value in zip(expected, rule(*old, summed(first_places(index), grad)), strict=True):
                    if len(t):
                        t[index] = value
                still = torch.tensor([row not in index for row in range(rows)])
                before = home.rows[still].clone()
                _rule_triton.move(rule, index, grad, home)
                compare(home, expected)
                assert torch.equal(home.rows[still], before)


def nodes() -> None:
    """The way to a kernel and back, as on a GPU: only the device is not one."""
    _location._native.location = _location_on_triton
    for kind, plain in KINDS.items():
        for reduction in ("mean", "none"):
            inputs = draw(kind, 300, scales=300, shapes=300)
            found = _location.location_nll(kind, *inputs, constant=0.0, reduction=reduction)
            weight = torch.randn_like(found)
            value, expected = in_double(plain, inputs, reduction, weight)
            assert_close(found.detach(), value, of=1e-5)
            for mine, theirs in zip(torch.autograd.grad(found, inputs, weight), expected, strict=True):
                assert_close(mine, theirs, of=2e-4)


def compare(got, expected) -> None:
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=5e-5)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # numpy's, for lanes that are not picked
    torch.cuda.device_of = lambda tensor: nullcontext()
    for check in (location, rescale, softmax, direct, rows_of_a_table, nodes):
        torch.manual_seed(1)
        check()
    print("as it should be")
