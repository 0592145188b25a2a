"""Priors whose scales learn: their densities, what keeps them from collapsing, and how they live beside a model."""

import copy
import gc
import math
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed, distributions, multiprocessing as mp, nn
from torch.nn.parallel import DistributedDataParallel

import likely
from likely.priors import LaplacePrior, NormalPrior, SpikeSlabPrior
from pairwise import together

KINDS = [NormalPrior, LaplacePrior, SpikeSlabPrior]
SCALED = [NormalPrior, LaplacePrior]
PER = ["all", "tensor", "element"]
CASES = [(kind, per) for kind in KINDS for per in PER if (kind, per) != (SpikeSlabPrior, "element")]


def mlp(inputs: int = 5, hidden: int = 7, outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def regression(n: int, d: int, noise: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, w = torch.randn(n, d), torch.randn(d, 1)
    return x, x @ w + noise * torch.randn(n, 1), w


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("kind", SCALED)
def test_map_is_minus_the_log_density(kind, per):
    model = mlp()
    prior = kind(model, per=per, method="map")
    family = distributions.Normal if kind is NormalPrior else distributions.Laplace
    expected = -sum(family(0.0, prior.scale[name]).log_prob(w).sum() for name, w in prior.weights.items())
    torch.testing.assert_close(prior(), expected)


@together("kind", SCALED)
@together("method", ["map", "evidence"])
@together("per", PER)
def test_fitted_scales_are_stationary(kind, per, method):
    prior = kind(mlp(), per=per, method=method)
    prior.fit_()
    loss = prior()
    slopes = torch.autograd.grad(loss, list(prior.parameters()))
    assert max(float(g.abs().max()) for g in slopes) < 1e-3


def test_the_evidence_is_that_of_ridge_regression():
    """For a linear model and known noise: -log p(y) in closed form, to a constant, and the best scale is its own."""
    x, y, _ = regression(60, 8, noise=1.0)
    model = nn.Linear(8, 1, bias=False)
    prior = NormalPrior(model, n=60)
    exact = x.T @ x  # the curvature of the NLL; the observed one needs the model's own noise
    prior.spectrum[0, :8] = torch.linalg.eigvalsh(exact)
    prior.spectrum[0, 8:] = 0

    def profile(scale: float) -> float:
        ridge = torch.linalg.solve(exact + torch.eye(8) / scale**2, x.T @ y)
        with torch.no_grad():
            model.weight.copy_(ridge.T)
            prior.scales[0].raw.fill_(math.log(scale))
            return (0.5 * (y - model(x)).square().sum() + prior()).item()

    def evidence(scale: float) -> float:
        covariance = torch.eye(60) + scale**2 * x @ x.T
        return -float(distributions.MultivariateNormal(torch.zeros(60), covariance).log_prob(y[:, 0]))

    for scale in (0.3, 1.0, 4.0):
        assert profile(scale) - profile(0.1) == pytest.approx(evidence(scale) - evidence(0.1), abs=2e-3)


def test_observed_information_is_the_fisher_information():
    x, y, _ = regression(400, 6)
    model = nn.Linear(6, 1)
    nn.init.zeros_(model.weight)
    with torch.no_grad():
        model.weight.copy_(torch.linalg.lstsq(x, y).solution.T)
    prior = NormalPrior(model, n=400)
    prior.observe(likely.NormalLoss(reduction="none", scale=1.0)(model(x), y), n=400)
    found = prior.spectrum[0].sort(descending=True).values[:6]
    torch.testing.assert_close(found, torch.linalg.eigvalsh(x.T @ x).flip(0), rtol=0.35, atol=0.0)
    assert float(prior.spectrum[0].sum()) == pytest.approx(float(found.sum()), rel=1e-3)


@pytest.mark.parametrize("kind", [NormalPrior, LaplacePrior])
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_prior_that_observes_first_has_no_unit(kind: type[NormalPrior], unit: float):
    x, y, w = regression(200, 20, noise=2.0)
    model, loss_fn = nn.Linear(20, 1), likely.NormalLoss()
    prior, rows = kind(model, n=200), likely.NormalLoss(reduction="none", scale=loss_fn.scale)
    scales = [*loss_fn.parameters(), *prior.parameters()]
    optimizer = torch.optim.Adam([{"params": model.parameters(), "lr": 0.05 * unit}, {"params": scales, "lr": 0.05}])
    for step in range(800):
        if step % 40 == 0:
            prior.observe(rows(model(x), unit * y))
        optimizer.zero_grad()
        (loss_fn(model(x), unit * y) + prior() / 200).backward()
        optimizer.step()
    assert float((model.weight.detach() / unit - w.T).norm() / w.norm()) < 0.2
    assert float(prior.scales[0].value.detach() / unit) == pytest.approx(0.93, rel=0.3)


def test_a_prior_that_observes_too_late_says_so():
    x, y, _ = regression(200, 20)
    model = nn.Linear(20, 1)
    prior = NormalPrior(model, n=200)
    with torch.no_grad():
        prior.scales[0].raw.fill_(-0.1)  # it has been trained
    with pytest.warns(UserWarning, match="call observe before the first step"):
        prior.observe(likely.NormalLoss(reduction="none", scale=1e6)(model(x), 1e6 * y))
    prior.observe(likely.NormalLoss(reduction="none", scale=1e6)(model(x), 1e6 * y))


def test_learned_l2_reaches_the_oracle_ridge():
    n, d = 80, 60
    x, y, w = regression(n, d, noise=6.0)
    model, loss_fn = nn.Linear(d, 1, bias=False), likely.NormalLoss(reduction="none", scale=6.0)
    prior = NormalPrior(model, n=n)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y).mean() + prior() / n
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(closure)
        prior.observe(loss_fn(model(x), y))
    oracle = min(
        float((torch.linalg.solve(x.T @ x + lam * torch.eye(d), x.T @ y) - w).norm())
        for lam in torch.logspace(-1, 3, 30)
    )
    assert (model.weight.T - w).norm().item() < 1.1 * oracle


@pytest.mark.parametrize(("optimizer", "kept"), [(torch.optim.SGD, 10), (torch.optim.AdamW, 40)])
def test_sparse_regression_keeps_the_true_weights(optimizer, kept):
    """From zero, that is from the lasso at the universal threshold. Adam's steps, all of one size, keep noise alive."""
    n, d = 300, 100
    x = torch.randn(n, d)
    w = torch.zeros(d, 1)
    w[:5] = 2.0
    y = x @ w + torch.randn(n, 1)
    model = nn.Linear(d, 1)
    nn.init.zeros_(model.weight)
    prior = LaplacePrior(model, per="element", n=n)
    prior.fit_()
    step = optimizer([{"params": model.parameters()}, {"params": prior.parameters(), "weight_decay": 0}], lr=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(step, 600)
    for _ in range(600):
        step.zero_grad()
        (0.5 * (model(x) - y).square().mean() + prior() / n).backward()
        step.step()
        schedule.step()
    assert prior.prune_() >= 1 - kept / d
    torch.testing.assert_close(model.weight[0, :5].detach(), w[:5, 0], atol=0.25, rtol=0.0)


def train(model, prior, x, y, steps=400):
    optimizer = torch.optim.Adam([*model.parameters(), *prior.parameters()], lr=3e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        (nn.functional.mse_loss(model(x), y) + prior() / len(y)).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", SCALED)
def test_map_collapses_and_says_so_once_where_the_default_learns(kind):
    x, y, _ = regression(60, 5, noise=0.1)
    model = nn.Sequential(nn.Linear(5, 200), nn.ReLU(), nn.Linear(200, 1))
    twin = copy.deepcopy(model)
    with pytest.warns(UserWarning, match=r"collapses: the scale of .*weight has fallen from .* to .*evidence") as told:
        train(model, kind(model, method="map"), x, y)
    assert len(told) == 1
    assert (model(x) - y).var().item() > 0.7 * float(y.var())
    prior = kind(twin, n=60)
    train(twin, prior, x, y)
    assert (twin(x) - y).var().item() < 0.3 * float(y.var())
    assert all(s.item() > 1e-3 for s in prior.scale.values())


@together(("kind", "per"), CASES)
def test_the_default_is_bounded_below(kind, per):
    model = mlp()
    prior = kind(model, per=per)
    values = []
    for shrink in (1.0, 1e-3, 1e-6, 1e-9):
        with torch.no_grad():
            for weight in prior.weights.values():
                weight.mul_(shrink)
            for raw in prior.scales.parameters():
                raw.add_(math.log(shrink))
        values.append(prior().item())
    assert abs(values[-1] - values[-2]) < 1e-2 * (1 + abs(values[-1])) or values[-1] > values[-2]


@together(("kind", "per"), CASES)
def test_lives_beside_the_model(kind, per):
    model = mlp()
    prior = kind(model, per=per, n=50)
    own = {id(p) for p in model.parameters()}
    assert all(id(p) not in own for p in prior.parameters())
    assert not any("weight" in name for name in prior.state_dict())

    prior().backward()
    assert all(p.grad is not None for p in prior.parameters())
    assert model[0].weight.grad is not None
    assert model[0].bias.grad is None

    groups = likely.param_groups(model, nn.ModuleList([likely.NormalLoss(), prior]), lr=0.1)
    assert {id(p) for p in prior.parameters()} <= {id(p) for p in groups[1]["params"]}
    assert {id(p) for p in groups[0]["params"]} == own

    with torch.no_grad():
        for p in prior.parameters():
            p.add_(0.1)
    twin, other = copy.deepcopy((model, prior))
    torch.testing.assert_close(other(), prior())
    assert other.weights["0.weight"] is twin[0].weight
    with pytest.raises(RuntimeError, match=r"deepcopy\(\(model, prior\)\)"):
        copy.deepcopy(prior)
    fresh = kind(model, per=per, n=50)
    fresh.load_state_dict(prior.state_dict())
    torch.testing.assert_close(fresh(), prior())
    reloaded_model, reloaded = pickle.loads(pickle.dumps((model, prior)))
    assert reloaded.weights["0.weight"] is reloaded_model[0].weight
    assert "0.weight" in prior.scale
    assert set(prior.weight_decay()) == set(prior.scale)
    assert kind.__name__ in repr(prior)


@together(("kind", "per"), CASES)
def test_dtypes(kind, per):
    model = mlp()
    expected = kind(model, per=per)()
    double = copy.deepcopy(model).double()
    prior = kind(double, per=per)
    assert prior().dtype == torch.float64
    assert all(p.dtype == torch.float64 for p in prior.parameters())
    assert prior().item() == pytest.approx(expected.item(), rel=1e-4)
    half = model.bfloat16()
    prior = kind(half, per=per)
    assert all(p.dtype == torch.float32 for p in prior.parameters())
    assert prior().dtype == torch.float32
    assert prior().item() == pytest.approx(expected.item(), rel=2e-2)


@together(("kind", "per"), CASES)
def test_compiles_to_one_graph(kind, per):
    model = nn.Linear(3, 2)
    prior = kind(model, per=per)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean() + prior() / 10

    x = torch.randn(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")(x)
    compiled.backward()
    found = [p.grad.clone() for p in (*model.parameters(), *prior.parameters())]
    model.zero_grad()
    prior.zero_grad()
    torch.testing.assert_close(compiled, loss(x))
    loss(x).backward()
    for one, other in zip(found, (*model.parameters(), *prior.parameters()), strict=True):
        torch.testing.assert_close(one, other.grad)


def test_follows_the_model_to_another_dtype_and_to_new_parameters():
    model = mlp()
    prior = NormalPrior(model)
    model.load_state_dict({k: 2 * v for k, v in model.state_dict().items()}, assign=True)
    assert prior.weights["0.weight"] is model[0].weight
    model.double()
    prior.double()
    assert prior().dtype == torch.float64


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight


def test_which_weights():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    assert list(NormalPrior(model).weights) == ["0.weight", "3.weight"]
    assert list(NormalPrior(model, which=["3.bias"]).weights) == ["3.bias"]
    assert list(NormalPrior(model, which=lambda name, p: name.startswith("0")).weights) == ["0.weight", "0.bias"]
    model[0].weight.requires_grad_(False)
    assert list(NormalPrior(model).weights) == ["3.weight"]
    assert list(NormalPrior(Tied()).weights) == ["embed.weight"]
    assert list(NormalPrior(Tied(), which=["head.weight", "embed.weight"]).weights) == ["head.weight"]


@together(
    ("make", "kind", "message"),
    [
        (lambda m: NormalPrior(m, per="row"), ValueError, "per must be"),
        (lambda m: NormalPrior(m, method="bayes"), ValueError, "method must be"),
        (lambda m: NormalPrior(m, which=["2.weight"]), ValueError, "no parameter 2.weight; it has 0.weight"),
        (lambda m: NormalPrior(m, which="0.weight"), TypeError, "list of names"),
        (lambda m: NormalPrior(m, which=lambda *_: False), ValueError, "no parameter is selected"),
        (lambda m: NormalPrior(m, n=0), ValueError, "n must be > 0"),
        (lambda m: NormalPrior([m]), TypeError, "nn.Module"),
        (lambda m: NormalPrior(nn.LazyLinear(2)), ValueError, "run the model once"),
        (lambda m: SpikeSlabPrior(m, per="element"), ValueError, "already decides"),
        (lambda m: NormalPrior(m).prune_(), ValueError, "give a threshold"),
        (lambda m: likely.priors.Prior(m)(), TypeError, "use NormalPrior"),
        (lambda m: SpikeSlabPrior(m, method="bayes"), ValueError, "method must be"),
    ],
)
def test_mistakes(make, kind, message):
    with pytest.raises(kind, match=message):
        make(mlp())


def test_prune_counts_zeros():
    model = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e-4, -1e-4, 1.0, -2.0]]))
    assert SpikeSlabPrior(copy.deepcopy(model)).prune_() == 0.5
    assert LaplacePrior(copy.deepcopy(model), per="element").prune_() == 0.5
    assert NormalPrior(model).prune_(1.5) == 0.75
    assert model.weight.tolist() == [[0, 0, 0, -2]]


def test_spike_and_slab_by_hand():
    model = nn.Linear(2, 1, bias=False)
    prior = SpikeSlabPrior(model, method="map")
    weight, slab = model.weight, prior.scale["weight"]
    spike = 0.5 * distributions.Laplace(0.0, prior._epsilon(weight)).log_prob(weight).exp()
    slab_density = 0.5 * distributions.Normal(0.0, slab).log_prob(weight).exp()
    torch.testing.assert_close(prior(), -(spike + slab_density).log().sum())
    torch.testing.assert_close(prior.inclusion()["weight"], (slab_density / (spike + slab_density)).detach())
    before = prior().item()
    prior.fit_()
    assert prior().item() < before


def test_zero_weights_leave_the_scale_where_it_is():
    model = nn.Linear(3, 1)
    nn.init.zeros_(model.weight)
    for kind in SCALED:
        for method in ("map", "evidence"):
            assert kind(model, method=method).scale["weight"].item() == 1.0


def two_steps(rank: int, world: int) -> dict[str, torch.Tensor]:
    """Train on this process's share of the rows, observing once; every process must end with the same scales."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    prior, sparse = NormalPrior(model, n=16), LaplacePrior(model, per="element", n=16)
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1)).tensor_split(world)[rank]
    wrapped = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD([*model.parameters(), *prior.parameters(), *sparse.parameters()], lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        (wrapped(x).square().sum(1).mean() + (prior() + sparse()) / 16).backward()
        optimizer.step()
        if step == 1:
            prior.observe(model(x).square().sum(1))
    return copy.deepcopy(
        {"weight": model.weight.detach(), **prior.state_dict(), "sparse": sparse.scales[0].raw.detach()}
    )


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        torch.save(two_steps(rank, 2), f"{folder}/{rank}.pt")
        gc.collect()
        distributed.barrier()
    finally:
        distributed.destroy_process_group()


# Forks have imported everything already, but may not take gradients where the parent has threads for GPUs.
START = "spawn" if torch.cuda.is_available() else "fork"


# Newer Pythons warn of forks beside threads; these use none of the parent's.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.heavy
def test_two_processes_keep_the_same_scales(tmp_path: Path):
    mp.start_processes(worker, args=(str(tmp_path),), nprocs=2, start_method=START)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    alone = two_steps(0, 1)
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name
        if name != "spectrum":  # of half the rows each, and then the mean
            torch.testing.assert_close(first[name], value, rtol=0.1, atol=0.02)
    assert float(first["spectrum"].sum()) == pytest.approx(float(alone["spectrum"].sum()), rel=1e-3)


PRIORS = [
    (kind, per, method)
    for kind in (NormalPrior, LaplacePrior, SpikeSlabPrior)
    for per in ("all", "tensor", "element")
    for method in ("evidence", "map")
    if (kind, per) != (SpikeSlabPrior, "element")
]


@together(("kind", "per", "method"), PRIORS)
def test_the_order_of_parameters_changes_nothing(kind, per, method):
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)
    turned = nn.ModuleDict({"b": second, "a": first})
    values = [kind(m, per=per, method=method)() for m in (nn.ModuleDict({"a": first, "b": second}), turned)]
    torch.testing.assert_close(*values)


@pytest.mark.parametrize("model", [nn.ReLU(), nn.LayerNorm(3), nn.Linear(4, 3).requires_grad_(False)])
def test_a_module_with_nothing_to_learn_is_refused(model):
    with pytest.raises(ValueError, match=r"no parameter is selected.*which="):
        NormalPrior(model)


@together(("kind", "per", "method"), PRIORS)
def test_a_weight_that_is_nan_does_not_reach_the_scales(kind, per, method):
    model = nn.Linear(4, 3)
    prior = kind(model, per=per, method=method)
    prior.fit_()
    with torch.no_grad():
        model.weight[0, 0] = torch.nan
    prior.fit_()
    assert all(scale.isfinite().all() for scale in prior.scale.values())
    assert prior().isnan()


@pytest.mark.parametrize("kind", [NormalPrior, LaplacePrior])
def test_rows_that_are_not_finite_are_refused_and_leave_the_prior_as_it_was(kind):
    model, x = nn.Linear(4, 1), torch.randn(20, 4)
    prior, loss_fn = kind(model, n=20), likely.NormalLoss(reduction="none")
    prior.observe(loss_fn(model(x), x[:, :1]))
    before = copy.deepcopy(prior.state_dict())
    for bad in (torch.nan, torch.inf):
        x[3, 1] = bad
        with pytest.raises(ValueError, match="rows must be finite"):
            prior.observe(loss_fn(model(x), x[:, :1]), n=50)
        assert prior.n == 20
        assert all(torch.equal(before[name], value) for name, value in prior.state_dict().items())
