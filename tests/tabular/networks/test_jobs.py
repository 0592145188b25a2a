"""Folds and members that joblib spreads give the model of one job, to the last bit."""

from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeRegressor

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor

pytestmark = pytest.mark.heavy

random = np.random.default_rng(0)
X = random.normal(size=(150, 3))
y = np.sin(2 * X[:, 0]) + 0.3 * random.normal(size=150)
MEMBERS = ["linear", "kernel", "trees", "boosting", DecisionTreeRegressor(max_depth=3)]


def regressor(**options: Any) -> LikelihoodRegressor:
    return LikelihoodRegressor(MEMBERS, likelihood="normal", scale="global", cv=3, random_state=0, **options)


def answer(n_jobs: int | None = None, **options: Any) -> np.ndarray:
    model = regressor(n_jobs=n_jobs, **options).fit(X, y)
    return np.stack([*model.predict(X, return_std=True), model.out_of_fold_])


@pytest.fixture(scope="module")
def one_job() -> np.ndarray:
    return answer(1)


@pytest.mark.parametrize(("backend", "n_jobs"), [("loky", 2), ("threading", 3)])
def test_any_number_of_jobs_gives_the_same_model(backend: str, n_jobs: int, one_job: np.ndarray) -> None:
    before = torch.get_num_threads()
    with joblib.parallel_config(backend):
        np.testing.assert_array_equal(answer(n_jobs), one_job)
    assert torch.get_num_threads() == before


def test_a_cluster_fits_the_folds(one_job: np.ndarray) -> None:
    distributed = pytest.importorskip("distributed")
    lines: list[str] = []
    with (
        distributed.LocalCluster(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        np.testing.assert_array_equal(answer(verbose=lines.append), one_job)
        assert cluster.workers[0].state.executed_count >= 3 * len(MEMBERS)
    assert [line.split(":")[0] for line in lines][: len(MEMBERS)] == [*MEMBERS[:4], "DecisionTreeRegressor"]


@pytest.mark.usefixtures("quick_stacks")
def test_a_choice_among_members_does_not_depend_on_jobs() -> None:
    def chosen(n_jobs: int) -> tuple[Any, np.ndarray]:
        with joblib.parallel_config("threading"):
            model = LikelihoodClassifier(cv=3, n_jobs=n_jobs, random_state=0).fit(X, y > 0)
        return model.summary_["weights"], model.predict_proba(X)

    (one, alone), (two, spread) = chosen(1), chosen(2)
    assert one == two
    np.testing.assert_array_equal(alone, spread)


@pytest.mark.usefixtures("quick_stacks")
def test_the_time_limit_holds_in_other_threads() -> None:
    with joblib.parallel_config("threading", n_jobs=2):
        model = regressor(time_limit=1e-6).fit(X, y)
    outcomes = [own["outcome"] for own in model.summary_["members"]]
    assert outcomes[0] == "fitted"
    assert set(outcomes[1:]) == {"dropped: time_limit was reached"}
