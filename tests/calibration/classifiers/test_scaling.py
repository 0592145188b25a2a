"""Vector and matrix scaling and the deep temperature: optima, limits and behaviour on hard input."""

import pickle
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import optimize
from scipy.special import log_softmax
from sklearn.base import clone

from likely._rows.blocks import Rows
from likely.calibration import _scaling
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import DeepTemperature, GlobalTemperature
from pairwise import together

SCALINGS = [VectorScaling, StructuredMatrixScaling]


def biased(n=600, classes=4, seed=0, leak=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    clean = 3 * np.eye(classes)[y] + 2 * rng.normal(size=(n, classes))
    return clean + leak * np.roll(clean, 1, axis=1) + np.r_[3, np.zeros(classes - 1)], y


def nll(calibrator, logits, y, features=None):
    log_p = log_softmax(np.asarray(calibrator.transform(logits, features), dtype=float), axis=1)
    return -log_p[np.arange(len(y)), y].mean()


@pytest.fixture
def many(monkeypatch):
    """The path for many parameters, taken by few."""
    monkeypatch.setattr(_scaling, "_DENSE", 0)


@pytest.mark.parametrize("matrix", [False, True])
def test_hessian_and_gradient_match_differences(matrix):
    logits, y = biased(40, 3)
    weight = np.random.default_rng(1).random(40)
    problem = _scaling.AffineProblem(Rows(logits), y, weight, 0.7, matrix)
    theta = 0.1 * np.random.default_rng(2).normal(size=problem.size)
    slope = problem.value(theta)[1]
    numeric = optimize.approx_fprime(theta, lambda t: problem.value(t)[0], 1e-6)
    np.testing.assert_allclose(slope, numeric, atol=1e-4)
    eye = np.eye(problem.size) * 1e-5
    columns = [(problem.value(theta + e)[1] - problem.value(theta - e)[1]) / 2e-5 for e in eye]
    np.testing.assert_allclose(problem.hessian(theta), np.array(columns), atol=1e-4)
    np.testing.assert_allclose(problem.curvature(theta)[0], np.diag(problem.hessian(theta)), rtol=1e-9)


def test_evidence_gradient_matches_differences():
    logits, y = biased(200, 3, leak=0.5)
    problem = _scaling.AffineProblem(Rows(logits), y, np.ones(200), 0.7, True)
    theta = np.zeros(problem.size)
    hessian, response = problem.hessian(theta), -problem.value(theta)[1]
    found = _scaling._most_evident(hessian, response, problem, np.array([6.0, 6.0, 12.0]))
    ridge = found[problem.group]
    mean = np.linalg.solve(hessian + np.diag(ridge), response)
    inverse = np.diag(np.linalg.inv(hessian + np.diag(ridge)))
    for g in range(3):
        if found[g] < _scaling._NEVER:
            own = problem.group == g
            determined = problem.sizes[g] - found[g] * inverse[own].sum()
            price = _scaling.RATE * np.sqrt(problem.sizes[g] / found[g])
            assert found[g] * (mean[own] ** 2).sum() == pytest.approx(determined + price, rel=1e-2)


def test_unregularised_vector_scaling_is_the_maximum_likelihood():
    logits, y = biased(500, 3)
    fitted = VectorScaling(penalty=None).fit(logits, y)

    def loss(theta):
        centred = logits - logits.mean(1, keepdims=True)
        log_p = log_softmax(theta[:3] * centred + np.r_[0, theta[3:]], axis=1)
        return -log_p[np.arange(len(y)), y].mean()

    best = optimize.minimize(loss, np.r_[1.0, 1, 1, 0, 0], tol=1e-10).fun
    assert nll(fitted, logits, y) == pytest.approx(best, abs=1e-6)
    assert np.all(fitted.precision_ <= 1e-6)


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_great_penalty_is_global_scaling(kind):
    logits, y = biased()
    fitted, base = kind(penalty=1e9).fit(logits, y), GlobalTemperature().fit(logits, y)
    np.testing.assert_allclose(fitted.predict_proba(logits), base.predict_proba(logits), atol=1e-5)


@pytest.mark.parametrize("kind", SCALINGS)
def test_nothing_to_learn_learns_nothing(kind):
    logits, y = biased(300, 4, seed=3)
    logits[:, 0] -= 3
    fitted = kind().fit(logits, y)
    fresh, labels = biased(4000, 4, seed=4)
    fresh[:, 0] -= 3
    assert nll(fitted, fresh, labels) < nll(GlobalTemperature().fit(logits, y), fresh, labels) + 0.003


def test_each_recovers_what_it_can_express():
    (logits, y), (fresh, labels) = biased(3000, leak=0.7), biased(4000, seed=9, leak=0.7)
    gs, vs, sms = (c.fit(logits, y) for c in (GlobalTemperature(), VectorScaling(), StructuredMatrixScaling()))
    assert nll(vs, fresh, labels) < nll(gs, fresh, labels) - 0.05
    assert nll(sms, fresh, labels) < nll(vs, fresh, labels) - 0.05


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("penalty", [5.0, "evidence"])
def test_both_solvers_agree(kind, penalty, monkeypatch):
    (logits, y), (fresh, labels) = biased(2000, leak=0.5), biased(2000, seed=7, leak=0.5)
    dense = kind(penalty=penalty).fit(logits, y)
    monkeypatch.setattr(_scaling, "_DENSE", 0)
    other = kind(penalty=penalty).fit(logits, y)
    tolerance = 1e-5 if penalty == 5.0 else 2e-3  # the count of determined parameters is approximate there
    assert nll(other, fresh, labels) == pytest.approx(nll(dense, fresh, labels), abs=tolerance)


def test_both_solvers_agree_where_classes_differ_in_number_and_in_spread(monkeypatch):
    """The curvatures of the parameters are then orders of magnitude apart."""
    rng = np.random.default_rng(0)
    share = np.exp(-0.7 * np.arange(8))
    y = rng.choice(8, 400, p=share / share.sum())
    logits = 3 * np.eye(8)[y] + 2 * np.exp(0.5 * np.arange(8)) * rng.normal(size=(400, 8))
    dense = StructuredMatrixScaling(penalty=0.2).fit(logits, y)
    monkeypatch.setattr(_scaling, "_DENSE", 0)
    other = StructuredMatrixScaling(penalty=0.2).fit(logits, y)
    for name in ("factors_", "bias_", "mixing_"):
        np.testing.assert_allclose(getattr(other, name), getattr(dense, name), atol=0.05)


@pytest.mark.parametrize("kind", SCALINGS)
def test_weights_count_rows(kind):
    logits, y = biased(300)
    weight = np.random.default_rng(0).integers(0, 3, 300)
    weighted = kind(penalty=3.0).fit(logits, y, sample_weight=weight)
    repeated = kind(penalty=3.0).fit(np.repeat(logits, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(logits), repeated.predict_proba(logits), atol=1e-4)


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_constant_in_a_row_changes_nothing(kind):
    logits, y = biased()
    shift = np.random.default_rng(0).normal(size=(len(y), 1))
    a, b = kind().fit(logits, y), kind().fit(logits + shift, y)
    np.testing.assert_allclose(a.predict_proba(logits), b.predict_proba(logits + shift), atol=1e-4)


@pytest.mark.parametrize(
    "make", [VectorScaling, StructuredMatrixScaling, lambda: DeepTemperature(max_iter=30, random_state=0)]
)
def test_any_array(make, tmp_path):
    logits, y = biased(300)
    logits = logits.astype(np.float16)
    np.save(tmp_path / "z.npy", logits)
    reference = make().fit(logits, y).predict_proba(logits)
    assert reference.dtype == np.float32
    mapped = np.load(tmp_path / "z.npy", mmap_mode="c")
    np.testing.assert_array_equal(make().fit(mapped, y).predict_proba(mapped), reference)
    for dtype in (torch.float16, torch.bfloat16):
        tensor = torch.as_tensor(logits).to(dtype)
        answer = make().fit(tensor, torch.as_tensor(y)).predict_proba(tensor)
        assert isinstance(answer, torch.Tensor)
        np.testing.assert_allclose(answer.numpy(), reference, atol=0.05)
    probabilities = torch.softmax(torch.as_tensor(logits).double(), 1).numpy()
    handed = make().set_params(inputs="probabilities").fit(probabilities, y)
    assert np.isfinite(handed.predict_proba(probabilities)).all()


@pytest.mark.parametrize(
    "make", [VectorScaling, StructuredMatrixScaling, lambda: DeepTemperature(max_iter=30, random_state=0)]
)
@together("case", ["one class", "two rows", "constant", "separated", "ruled out", "absent class"])
def test_hard_input_gives_a_sane_answer(make, case):
    logits, y = biased(100)
    if case == "one class":
        y = np.zeros_like(y)
    elif case == "two rows":
        logits, y = logits[:2], np.array([0, 1])
    elif case == "constant":
        logits = np.zeros_like(logits)
    elif case == "separated":
        logits = 50 * np.eye(4)[y]
    elif case == "ruled out":
        logits = np.where(np.eye(4)[(y + 1) % 4] == 1, -np.inf, logits)
    else:
        y = np.minimum(y, 2)
    fitted = make().fit(logits, y)
    probabilities = fitted.predict_proba(logits)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert np.isfinite(nll(fitted, logits, y))


def test_hard_input_for_many_parameters(many):
    logits, y = biased(50)
    for kind in SCALINGS:
        for labels in (y, np.zeros_like(y)):
            assert np.isfinite(kind().fit(logits, labels).predict_proba(logits)).all()


@pytest.mark.parametrize(
    "make", [VectorScaling, StructuredMatrixScaling, lambda: DeepTemperature(max_iter=30, random_state=0)]
)
def test_clone_pickle_repr(make):
    logits, y = biased(200)
    fitted = make().fit(logits, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(logits), fitted.transform(logits))
    assert not hasattr(clone(fitted), "n_classes_")
    assert type(fitted).__name__ in repr(fitted)


def test_errors():
    logits, y = biased(50)
    with pytest.raises(ValueError, match="penalty must be"):
        VectorScaling(penalty="ridge").fit(logits, y)
    with pytest.raises(AttributeError, match="no temperature"):
        VectorScaling().fit(logits, y).temperature(logits)
    with pytest.raises(ValueError, match="NaN"):
        VectorScaling().fit(np.full_like(logits, np.nan), y)
    with pytest.raises(ValueError, match="fitted with 2 features"):
        DeepTemperature().fit(logits, y, np.zeros((50, 2))).predict_proba(logits)


def test_memory_is_flat_in_the_rows():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(10_000, 300)).astype(np.float32)
    y = rng.integers(0, 300, 10_000)
    tracemalloc.start()
    VectorScaling(penalty=10.0).fit(logits, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # NumPy's share; torch's blocks are bounded by CACHED_NUMBERS


def curved(n, seed):
    rng = np.random.default_rng(seed)
    y, features = rng.integers(0, 3, n), rng.normal(size=(n, 2))
    noise = np.exp(np.abs(features[:, :1]))
    return 3 * np.eye(3)[y] + noise * rng.normal(size=(n, 3)), y, features


def test_deep_temperature_learns_what_no_line_does():
    (logits, y, features), (fresh, labels, told) = curved(2000, 0), curved(3000, 1)
    ds, gs = DeepTemperature(random_state=0).fit(logits, y, features), GlobalTemperature().fit(logits, y)
    assert nll(ds, fresh, labels, told) < nll(gs, fresh, labels) - 0.05
    np.testing.assert_array_equal(ds.predict(fresh, told), fresh.argmax(1))
    temperature = ds.temperature(fresh, told)
    np.testing.assert_allclose(ds.transform(fresh, told), fresh / temperature[:, None], rtol=1e-5)


def test_deep_temperature_keeps_the_global_one_where_nothing_is_gained():
    logits, y = biased(400)
    features = np.random.default_rng(5).normal(size=(400, 50))
    ds = DeepTemperature(random_state=0).fit(logits, y, features)
    gs = GlobalTemperature().fit(logits, y)
    np.testing.assert_array_equal(ds.transform(logits, features), gs.transform(logits))


def test_deep_temperature_repeats_itself():
    logits, y, features = curved(300, 0)
    state = torch.get_rng_state()
    a, b = (
        DeepTemperature(max_iter=60, random_state=3).fit(logits, y, features).transform(logits, features)
        for _ in range(2)
    )
    np.testing.assert_array_equal(a, b)
    assert torch.equal(state, torch.get_rng_state())


def test_many_classes_learn_the_strength_that_the_whole_hessian_has(monkeypatch):
    """The logits of related classes go together: the diagonal of the Hessian takes far more of W for determined."""
    rng = np.random.default_rng(0)
    classes, rows = 15, 3000
    logits = 3 * rng.normal(size=(rows, 3)) @ rng.normal(size=(3, classes)) + 0.5 * rng.normal(size=(rows, classes))
    right = log_softmax(0.4 * logits + 0.05 * logits @ rng.normal(size=(classes, classes)), 1)
    y = (right + rng.gumbel(size=right.shape)).argmax(1)
    exact = StructuredMatrixScaling().fit(logits, y).precision_
    monkeypatch.setattr(_scaling, "_DENSE", 0)
    assert StructuredMatrixScaling().fit(logits, y).precision_[2] == pytest.approx(exact[2], rel=0.25)
