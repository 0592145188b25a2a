import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, strategies as st

from likely.constraints import Exp, Interval, ShiftedSoftplus

CONSTRAINTS = [
    ShiftedSoftplus(0.0),
    ShiftedSoftplus(0.01),
    ShiftedSoftplus(0.2),
    Exp(),
    Interval(0, 3),
    Interval(-2, 5),
]
every = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)


def double(x):
    return torch.tensor(x, dtype=torch.float64)


@every
@given(x=st.floats(-30, 30))
def test_inverse(constraint, x):
    raw = double(x).requires_grad_()
    value = constraint(raw)
    back = constraint.inv(value)
    # What the value's own rounding leaves undetermined: its last digit over the slope.
    slope = torch.autograd.grad(value, raw)[0].item()
    assert abs(back.item() - x) <= 1e-15 * (abs(value.item()) + 6) / slope * 4 + 1e-12


@every
@given(x=st.floats(-200, 200), step=st.floats(1e-3, 10))
def test_monotone_and_inside(constraint, x, step):
    low, high = constraint(double(x)), constraint(double(x + step))
    assert low <= high
    assert constraint.codomain.check(low) or low in (constraint(double(-1e9)), constraint(double(1e9)))


@every
@given(x=st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_no_nan_for_any_finite_input(constraint, x):
    raw = torch.tensor(x, requires_grad=True)
    value = constraint(raw)
    assert not value.isnan()
    if value.isfinite():
        assert not torch.autograd.grad(value, raw)[0].isnan()


@every
def test_pickles_copies_and_compares(constraint):
    for twin in (pickle.loads(pickle.dumps(constraint)), copy.deepcopy(constraint)):
        assert twin == constraint
        assert twin(double(0.3)) == constraint(double(0.3))


@given(x=st.floats(-15, 15))
def test_the_slope_of_the_softplus_is_its_derivative(x):
    f, raw = ShiftedSoftplus(0.2), double(x).requires_grad_()
    torch.testing.assert_close(f.slope(raw), torch.autograd.grad(f(raw), raw)[0])


@pytest.mark.parametrize(("offset", "floor"), [(0.2, 0.224), (0.01, 0.0142)])
def test_the_shifted_softplus_decays_to_its_floor_not_to_its_offset(offset, floor):
    f = ShiftedSoftplus(offset)
    assert f(double(0.0)).item() == pytest.approx(1, rel=1e-15)
    assert f(double(-1e4)).item() == pytest.approx(f.floor) == pytest.approx(floor, abs=5e-4)
    assert f.floor == offset / (math.log(2) + offset)


def test_the_softplus_stays_exact_beyond_twenty():
    f = ShiftedSoftplus(0.0)
    assert f(double(25.0)).item() * math.log(2) == pytest.approx(25 + math.log1p(math.exp(-25)), rel=1e-15)


@pytest.mark.parametrize(
    "make", [lambda: ShiftedSoftplus(-0.1), lambda: ShiftedSoftplus(math.nan), lambda: Interval(2, 1)]
)
def test_refuses_nonsense(make):
    with pytest.raises(ValueError, match=r"offset|low < high"):
        make()
