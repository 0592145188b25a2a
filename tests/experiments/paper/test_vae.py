"""The autoencoder of Table 1 and Figure 11: the same bound for all at the start, then each learns what is its own."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from experiments.data import Faces
from experiments.entries import Context
from experiments.entries.cores import one_thread
from experiments.paper import _stored, vae, vae_shape_scale
from experiments.paper._vae import (
    FLOOR,
    SOFTPLUS,
    Autoencoder,
    Judged,
    Likelihood,
    Recipe,
    Training,
    make_plan,
    read_together,
    values,
)
from experiments.paper._vision import digits
from experiments.paper.vae import BEST, DATA, GLOBAL, KINDS, NORMAL, OURS, PAPER, ROWS, Effort, Found
from likely.functional import normal_nll
from presentable import check_presentable

RECIPE = Recipe(widths=(4, 8), code=3, steps=3, batch=16, rate=1e-2)
PIXELS = digits().pixels
COLOUR = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
LEARN = [kind for kind in KINDS if kind != NORMAL]


@pytest.fixture(autouse=True)
def _one_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Everything on one core, also where there is a GPU: what is exact here is not on every device."""
    if not request.node.get_closest_marker("gpu"):
        for module in ("_vae", "vae"):
            monkeypatch.setattr(f"experiments.paper.{module}.device", lambda: torch.device("cpu"))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with one_thread():
        yield


def training(kind: Likelihood, pixels: np.ndarray = COLOUR, **changes: object) -> Training:
    return Training(pixels, kind, RECIPE._replace(**changes), seed=0)


def test_the_code_is_charged_its_divergence_from_the_standard_normal() -> None:
    model = training(NORMAL).eval().model
    caught: list[torch.Tensor] = []
    model.encoder.register_forward_hook(lambda module, args, output: caught.append(output))
    kl = model(torch.from_numpy(COLOUR)).kl
    mean, log_variance = caught[0].chunk(2, dim=1)
    code = torch.distributions.Normal(mean, (log_variance / 2).exp())
    known = torch.distributions.kl_divergence(code, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl, known)


def test_all_likelihoods_start_as_the_normal_one() -> None:
    bounds, rows = [], torch.arange(16)
    for kind in KINDS:
        one = training(kind, scale=0.5)
        torch.manual_seed(1)
        bounds.append(one.loss(rows).item())
    np.testing.assert_allclose(bounds, bounds[0], rtol=1e-5)
    # … which is the bound written out: the NLL of all values of a picture, and the divergence of its code.
    one = training(NORMAL, scale=0.5)
    torch.manual_seed(1)
    pixels = one.pixels[rows]
    code = one.model(pixels)
    reconstruction, _ = one(code.draw())
    nll = normal_nll(reconstruction, values(pixels), scale=0.5, reduction="none").sum((1, 2, 3))
    np.testing.assert_allclose(bounds[0], (nll + code.kl).mean().item(), rtol=0.02)  # half precision, on some machines


@pytest.mark.parametrize("kind", LEARN, ids=vae.name)
def test_shape_and_scale_move_from_where_they_start(kind: Likelihood) -> None:
    one = training(kind, steps=8)
    maps = one.eval()(one.encode(one.pixels).mean)[1]
    shape = kind.shape((8, 8, 3))
    for value, start in zip(one.reconstruction.shape_and_scale(maps), (2.0, 1.0), strict=True):
        assert value.shape == ((len(COLOUR),) if kind.conditioning == "Predicted" else ()) + shape
        torch.testing.assert_close(value, torch.full_like(value, start))
    one.train().take(8)
    alpha, scale = one.reconstruction.shape_and_scale(one.eval()(one.encode(one.pixels).mean)[1])
    assert (scale != 1).any()
    assert (alpha != 2).any()
    assert ((alpha > 0) & (alpha < 3)).all()
    assert (scale < 1).all(), "errors are smaller than one, and scales go where they are"


@pytest.mark.parametrize("dimension", ["1", "C", "H×W×C"])
def test_predicted_ones_differ_by_picture_once_trained(dimension: str) -> None:
    one = training(Likelihood("Predicted", dimension)).finish()
    for value in one.reconstruction.shape_and_scale(one(one.encode(one.pixels).mean)[1]):
        assert value.std(0).max() > 0


def test_layers_read_together_are_what_they_are_alone() -> None:
    hidden = torch.randn(2, 4, 3, 5).to(memory_format=torch.channels_last).requires_grad_()
    layers = [nn.Linear(4, width) for width in (3, 1, 6)]
    together = read_together(hidden, layers)
    for found, layer in zip(together, layers, strict=True):
        torch.testing.assert_close(found, layer(hidden.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    weights = [torch.randn_like(found) for found in together]
    inputs = [hidden, *(p for layer in layers for p in layer.parameters())]
    apart = [layer(hidden.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) for layer in layers]
    for own, other in zip(
        torch.autograd.grad(together, inputs, weights), torch.autograd.grad(apart, inputs, weights), strict=True
    ):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("kind", [GLOBAL, DATA, BEST], ids=vae.name)
def test_refined_codes_have_a_higher_bound(kind: Likelihood) -> None:
    one = training(kind, steps=30, scale=0.2).finish()
    target, bounds = values(one.pixels), []
    for refined in (0, 40):
        one.recipe = one.recipe._replace(refined=refined)
        code = one.encode(one.pixels)
        assert not code.mean.requires_grad
        assert all(p.grad is None for p in one.parameters()) or refined == 0
        one.zero_grad()
        torch.manual_seed(0)
        bounds.append(np.mean([one.bound(code, target).item() for _ in range(10)]))
    assert bounds[1] < bounds[0] - 0.5  # nats a picture; the bound is negated


def test_only_rows_that_were_seen_have_moved() -> None:
    one = training(DATA, batch=4)
    one.take(1)
    moved = one.reconstruction.loss_fn.scale.value != 1
    assert 1 <= moved.sum() <= 4


def test_the_scale_has_the_floor_of_the_paper() -> None:
    assert SOFTPLUS.floor == pytest.approx(FLOOR)
    assert SOFTPLUS(torch.tensor(-200.0)).item() == pytest.approx(FLOOR)
    assert SOFTPLUS(torch.tensor(0.0)).item() == pytest.approx(1.0)


def test_bytes_kept_are_parameters_and_moments_or_the_table() -> None:
    kept = {kind: training(kind).kept for kind in KINDS}
    numbers = 3 * 8 * 8
    assert kept[GLOBAL] == 2 * 3 * 4
    assert kept[Likelihood("Global", "H×W×C")] == 2 * 3 * 4 * numbers
    per_row = 2 * 4 * len(COLOUR)  # shape and scale in single precision
    assert 2 * per_row <= kept[DATA] < 2 * per_row + 100
    assert per_row * numbers <= kept[Likelihood("Data", "H×W×C")] < per_row * (numbers + 1) + 8 * numbers + 100
    assert 6 * 5 * 3 * 4 <= kept[BEST] < 6 * 5 * 3 * 4 + 100


def test_the_likelihood_learns_at_its_share_of_the_rate_and_is_clipped() -> None:
    groups = {group["name"]: group for group in training(BEST).optimizer.param_groups}
    assert groups["model"]["lr"] == 1e-2
    assert groups["likelihood"]["lr"] == pytest.approx(1e-3)
    one = training(GLOBAL, pixels=np.zeros_like(COLOUR))
    one.take(1)  # a gradient of hundreds: the scale belongs to 192 values
    gradient = torch.stack([p.grad for p in one.reconstruction.parameters()])
    assert gradient.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_an_annealed_rate_falls_to_zero() -> None:
    factor = make_plan(40, RECIPE._replace(steps=1000), seed=0).factor
    assert factor[0] == 1
    assert (factor.diff() < 0).all()
    assert factor[-1] < 1e-5
    one = training(NORMAL)
    one.take(3)
    assert one.optimizer.param_groups[0]["lr"].item() == pytest.approx(RECIPE.rate / 4)


def test_half_the_pictures_are_mirrored() -> None:
    plan = make_plan(40, RECIPE._replace(steps=1000, mirror=True), seed=0)
    assert plan.mirror.float().mean().item() == pytest.approx(0.5, abs=0.02)
    assert plan.rows.unique().tolist() == list(range(40))
    assert make_plan(40, RECIPE, seed=0).mirror is None
    seen: list[torch.Tensor] = []
    one = training(NORMAL)
    one.model.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    one.loss(torch.arange(2), None, torch.tensor([True, False]))
    torch.testing.assert_close(seen[0][0], one.pixels[0].flip(1))
    torch.testing.assert_close(seen[0][1], one.pixels[1])


def test_a_code_of_four_numbers_beats_the_mean_of_all_digits() -> None:
    train, rest = PIXELS[:1200], PIXELS[1200:]
    recipe = Recipe((8, 16), 4, 80, 64, 1e-2, scale=0.2)
    found = Training(train, GLOBAL, recipe, seed=0).finish().judge(rest)
    mean = np.square(rest / 255 - (train / 255).mean(0)).sum((1, 2, 3)).mean()
    assert found.at_mean < 0.75 * mean
    assert found.at_mean < found.drawn
    assert found.kl > 1


def test_the_same_seed_gives_the_same_network() -> None:
    one, two, other = (Training(COLOUR, BEST, RECIPE, seed).finish().judge(COLOUR) for seed in (0, 0, 1))
    assert one == two != other


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (torch.zeros(2, 8, 8, 3), "got torch.float32"),
        (torch.full((2, 8, 8, 3), math.nan), "got torch.float32"),
        (torch.zeros(2, 16, 16, 3, dtype=torch.uint8), r"made for bytes \(uint8\) of the shape \(rows, 8, 8, 3\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), r"of \(2, 3, 8, 8\)"),
    ],
)
def test_pictures_of_another_kind_are_refused(pixels: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Autoencoder((8, 8, 3), (4, 8), 3)(pixels)


def test_sides_that_cannot_be_halved_so_often_are_refused() -> None:
    with pytest.raises(ValueError, match="multiples of 4, got 10×8"):
        Autoencoder((10, 8, 3), (4, 8), 3)


def found(errors: dict[Likelihood, float], ours: float, step: float = 1.02, kept: float = 1e3) -> Found:
    judged = np.ones((len(ROWS), 3, len(Judged._fields)))
    for row, (_, kind) in enumerate(ROWS):
        judged[row, :, 0] = errors.get(kind, 230.0) + np.array([-0.1, 0.0, 0.1])
    judged[OURS:, :, 0] = ours
    seconds = np.ones((len(KINDS), 5))
    seconds[[kind.conditioning == "Predicted" for kind in KINDS]] = step
    return Found(judged, seconds, np.full(len(KINDS), kept), np.full(len(KINDS), np.nan), np.array(240.0))


@pytest.mark.parametrize(
    ("best", "step", "kept", "words"),
    [
        (220.0, 1.02, 1e3, "has the lowest error"),
        (220.0, 1.20, 1e3, "cost 1.20 to 1.20 times"),
        (220.0, 1.02, 2e6, "and 2 MB"),
        (229.0, 1.02, 1e3, "has the second lowest error"),
        (240.0, 1.20, 1e3, "has the 6th lowest error"),
    ],
)
def test_described_by_error_and_cost(best: float, step: float, kept: float, words: str) -> None:
    assert words in vae.describe(found({BEST: best, GLOBAL: 225.0}, 200.0, step, kept))


@pytest.mark.parametrize(
    ("best", "ours", "step", "met"),
    [
        (220.0, 200.0, 1.02, [True] * 3),
        (220.0, 210.0, 1.06, [True, False, False]),
        (226.0, 200.0, 1.0, [False, True, True]),
    ],
)
def test_bars(best: float, ours: float, step: float, met: list[bool]) -> None:
    bars = vae.bars(found({BEST: best, GLOBAL: 225.0}, ours, step), small=False)
    assert [bar.met for bar in bars] == met
    assert [bar.met for bar in vae.bars(found({}, ours), small=True)] == [None] * 3


def test_our_recipe_is_held_against_the_baseline_too() -> None:
    low, _, below = vae.bars(found({BEST: 220.0, NORMAL: 205.0}, 200.0), small=False)
    assert low.met
    assert below.value == pytest.approx(100 * 5 / 205)
    assert not below.met


def test_the_table_has_the_papers_rows_beside_ours() -> None:
    frame = vae.summarise(found({BEST: 220.0}, 200.0), small=False)
    assert frame.loc[("paper", "Predicted H×W×C"), "MSE"] == pytest.approx(220.0)
    assert frame["paper's MSE"].dropna().tolist() == [error for error, _ in PAPER.values()]
    assert frame.loc[("ours", "Global 1"), "step"] == "–"
    assert "peak" not in frame
    with_peak = found({}, 200.0)._replace(peak=np.arange(len(KINDS)) * 2.0**20)
    assert vae.summarise(with_peak, small=False)["peak"].tolist()[:3] == ["0 B", "1 MB", "2 MB"]


def test_principal_components_leave_what_scikit_learns_do() -> None:
    from sklearn.decomposition import PCA

    train, rest = (own.reshape(len(own), -1) / 255 for own in (PIXELS[:1200], PIXELS[1200:]))
    pca = PCA(4).fit(train)
    left = np.square(rest - pca.inverse_transform(pca.transform(rest))).sum(1).mean()
    assert vae.principal(PIXELS[:1200], PIXELS[1200:], 4) == pytest.approx(left, rel=1e-3)


@pytest.mark.gpu
def test_every_kind_trains_and_is_measured_on_the_gpu() -> None:
    small = Effort(2, RECIPE, RECIPE, turns=2, steps=2)
    seconds, _, peak = vae.measure(COLOUR, small)
    assert (seconds > 0).all()
    assert (peak > 0).all()
    for kind in KINDS:
        judged = Training(COLOUR, kind, RECIPE._replace(steps=20), seed=0).finish().judge(COLOUR)
        assert np.isfinite(judged).all()
        assert judged.drawn < 100  # of 192 values


TINY = Effort(2, RECIPE, RECIPE._replace(scale=0.2, mirror=True, refined=2), 2, 1)


def test_runs_on_digits_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "QUICK", TINY)
    told: list[float] = []
    result = vae.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert len(told) == 2 * len(ROWS)
    assert told[-1] == 1.0
    assert len(result.tables[0].frame) == len(ROWS)
    assert "half the pictures mirrored" in result.tables[0].caption


def train_anew(monkeypatch: pytest.MonkeyPatch, anew: bool = True) -> None:
    for module in (vae, vae_shape_scale):
        monkeypatch.setattr(module, "trains", lambda context, name: anew)


def some_faces(part: str, data: Path, rows: int) -> Faces:
    return Faces(part, COLOUR[: min(rows, 20)], np.arange(min(rows, 20)))


def test_trains_on_faces_keeps_what_it_found_and_draws_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vae, "FULL", TINY)
    monkeypatch.setattr(vae, "load_faces", some_faces)
    train_anew(monkeypatch)
    trained = vae.run(Context(data=tmp_path))
    check_presentable(trained)
    assert trained.bars[1].bar == vae.STEP
    for module in (vae, _stored):
        monkeypatch.setattr(module, "OUTPUTS", tmp_path)
    monkeypatch.setenv("LIKELY_DATA", str(tmp_path))
    vae.main()
    assert str(tmp_path / "vae.npz") in capsys.readouterr().out
    train_anew(monkeypatch, False)
    drawn = vae.run(Context(data=tmp_path))
    check_presentable(drawn)
    assert drawn.notes.startswith("Redrawn from stored outputs")
    columns = ["MSE", "±", "at the mean", "KL"]
    np.testing.assert_array_equal(drawn.tables[0].frame[columns], trained.tables[0].frame[columns])


def maps(inside: float = 0.95, varies: float = 0.3) -> vae_shape_scale.Found:
    quantiles = np.array([[1.9, 2.2, 2.8], [0.21, 0.3, 0.4]])
    seeds = np.array([-0.01, 0.0, 0.01])[:, None]
    return vae_shape_scale.Found(
        np.random.default_rng(0).random((2, 4, 8, 8)).astype(np.float16),
        quantiles + seeds[:, None],
        np.full((3, 2), inside),
        np.full((3, 2), varies),
        np.array([-0.2, 0.6]) + seeds,
    )


@pytest.mark.parametrize(
    ("inside", "varies", "small"),
    [(0.95, 0.3, False), (0.5, 0.3, True), (0.5, 0.01, False)],
)
def test_maps_are_described_by_range_and_variation(inside: float, varies: float, small: bool) -> None:
    notes = vae_shape_scale.describe(maps(inside, varies), small)
    assert "scales in 0.21 to 0.40" in notes
    assert "a correlation of 0.60 ± 0.01" in notes
    assert ("in the paper's ranges are" in notes) == (not small)


def test_variance_between_places_is_not_between_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    # At the start all pixels are alike; a map that is the same for all pictures varies between places only.
    place = torch.linspace(0, 1, 64).reshape(1, 8, 8).expand(40, 1, 8, 8)
    picture = torch.linspace(0, 1, 40).reshape(40, 1, 1, 1).expand(40, 1, 8, 8)
    monkeypatch.setattr(vae_shape_scale.Training, "finish", lambda self: self.eval())
    monkeypatch.setattr(
        "experiments.paper._vae.Reconstruction.shape_and_scale", lambda self, maps: (1.8 + place, picture)
    )
    found, drawn = vae_shape_scale.look(PIXELS[:50], PIXELS[:40], RECIPE, Context())
    seeds = len(found.varies)
    np.testing.assert_allclose(found.varies, [[0.0, 1.0]] * seeds, atol=1e-6)
    np.testing.assert_allclose(found.quantiles[:, 0], [[1.85, 2.3, 2.75]] * seeds, atol=0.01)
    np.testing.assert_allclose(found.inside, [[1.0, ((picture >= 0.2) & (picture <= 0.43)).float().mean()]] * seeds)
    assert found.maps.shape == (2, 4, 8, 8)
    np.testing.assert_array_equal(drawn.inputs, PIXELS[:4])


def test_the_figure_shows_faces_only_where_there_are_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (vae_shape_scale, _stored):
        monkeypatch.setattr(module, "OUTPUTS", tmp_path)
    train_anew(monkeypatch, False)
    _stored.keep("vae_shape_scale", maps()._asdict(), seconds=60)
    without = vae_shape_scale.run(Context())
    check_presentable(without)
    assert "columns are shape α, scale σ." in without.pictures[0].alt
    monkeypatch.setattr(vae_shape_scale, "has_faces", lambda data: True)
    monkeypatch.setattr(
        vae_shape_scale, "load_faces", lambda part, data, rows: Faces("some", COLOUR[:rows], np.arange(rows))
    )
    with_inputs = vae_shape_scale.run(Context(data=tmp_path))
    assert "columns are input, shape α, scale σ." in with_inputs.pictures[0].alt
    with np.load(tmp_path / "vae_shape_scale.npz") as kept:
        assert sorted(kept.files) == ["about", "doubt", "inside", "maps", "quantiles", "varies"]  # no face


def test_the_figure_trains_and_draws_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "FULL", TINY)
    monkeypatch.setattr(vae, "load_faces", some_faces)
    train_anew(monkeypatch)
    result = vae_shape_scale.run(Context(data=tmp_path))
    check_presentable(result)
    assert "columns are input, reconstruction, shape α, scale σ." in result.pictures[0].alt
    monkeypatch.setattr(_stored, "OUTPUTS", tmp_path)
    monkeypatch.setenv("LIKELY_DATA", str(tmp_path))
    vae_shape_scale.main()
    assert (tmp_path / "vae_shape_scale.npz").is_file()
