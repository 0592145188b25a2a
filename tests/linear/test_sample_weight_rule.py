"""The rule for sample_weight: whole numbers count rows, others are relative, and a fit that fails changes nothing."""

import warnings
from typing import Any

import numpy as np
import pytest

from likely._rows.checks import all_or_nothing, check_sample_weight

RELATIVE = np.array([0.5, 0.0, 1.5, 0.7, 1.3]) ** np.array([1, 1, 1, np.e, 1])
RELATIVE *= 4 / RELATIVE.sum()


def row_counts(weight: np.ndarray) -> Any:
    return check_sample_weight(weight, weight)


@pytest.mark.parametrize("counts", [[1.0, 0.0, 3.0], [1000.0, 0.0, 3000.0], [1e12, 1.0, 0.0]])
def test_whole_numbers_are_counts(counts: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(row_counts(np.array(counts)), counts)


@pytest.mark.parametrize("scale", [1e-308, 1e-300, 1 / 4, 1e-3, np.pi, 1e3, 1e300])
def test_other_weights_are_relative_and_a_large_change_is_told(scale: float) -> None:
    if 0.1 <= scale <= 10:
        np.testing.assert_allclose(row_counts(scale * RELATIVE), RELATIVE, rtol=1e-12)
        return
    with pytest.warns(UserWarning, match=r"pass sample_weight \* n / sample_weight.sum\(\)") as told:
        np.testing.assert_allclose(row_counts(scale * RELATIVE), RELATIVE, rtol=1e-12)
    assert told[0].filename == __file__


def test_floats_beyond_whole_numbers_are_not_counts() -> None:
    with pytest.warns(UserWarning, match="only its ratios"):
        np.testing.assert_array_equal(row_counts(np.full(4, 1e300)), 1)


def test_the_remedy_is_what_happens() -> None:
    weight = np.random.default_rng(0).random(50) / 1000
    with pytest.warns(UserWarning, match="only its ratios"):
        relative = row_counts(weight)
    np.testing.assert_allclose(check_sample_weight(weight * 50 / weight.sum(), np.zeros((50, 1))), relative)


class Model:
    @all_or_nothing
    def fit(self, X: float, fail: bool = False) -> "Model":
        self.seen_ = X
        if fail:
            raise ValueError("no")
        self.coef_ = X
        return self


def test_a_fit_that_fails_leaves_the_earlier_one() -> None:
    model = Model()
    with pytest.raises(ValueError, match="no"):
        model.fit(1, fail=True)
    assert not vars(model)
    model.fit(2)
    with pytest.raises(ValueError, match="no"):
        model.fit(3, fail=True)
    assert vars(model) == {"seen_": 2, "coef_": 2}
