"""scikit-learn's checks of one estimator, all of them in one test."""

from __future__ import annotations

import sklearn
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

# scikit-learn's own regressors knew less of weights then, and with them those that hold one.
WEIGHTS_ARE_UNKNOWN = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)


def meets_all_checks(estimator: BaseEstimator, expected: dict[str, str] | None = None) -> None:
    """Run every check, and name those that fail, and those that pass though they are expected to fail."""

    def start_alike(**_: object) -> None:
        torch.manual_seed(0)

    results = check_estimator(
        estimator, on_fail=None, on_skip=None, callback=start_alike, expected_failed_checks=expected or {}
    )
    assert len(results) > 30, "scikit-learn has more checks than these"
    told = []
    for result in results:
        name = result["check_name"]
        if WEIGHTS_ARE_UNKNOWN and name.startswith("check_sample_weight_equivalence"):
            continue
        if result["status"] == "failed":
            told.append(f"{name}: {type(result['exception']).__name__}: {result['exception']}")
        elif result["status"] == "passed" and result["expected_to_fail"]:
            told.append(f"{name} passes, though it is expected to fail: {result['expected_to_fail_reason']}")
    assert not told, f"{estimator} fails {len(told)} of scikit-learn's checks:\n" + "\n".join(told)
