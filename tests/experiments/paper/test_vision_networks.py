"""Networks for small pictures: they learn, by the seed alone, and their temperatures mean what is said of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from experiments.data import Images
from experiments.entries import Context
from experiments.entries.cores import one_thread
from experiments.paper import _stored
from experiments.paper._corruption import (
    AFTER,
    DETECTORS,
    DT,
    FAST,
    HEAT,
    KINDS,
    LABELS,
    NETWORKS,
    NLL,
    NOISE,
    SHARE,
    Effort,
    corrupted,
    everything,
    scores,
)
from experiments.paper._vision import (
    Network,
    Recipe,
    Said,
    digits,
    learn_afterwards,
    predicted_temperature,
    say,
    train_network,
)
from likely import paper
from likely.parameters import Data, Fixed

RECIPE = Recipe((16, 32), 5, 64, 1e-2)


@pytest.fixture(autouse=True)
def alone():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def parts() -> tuple[Images, Images]:
    images = digits()
    return images.select(np.arange(700)), images.select(np.arange(1200, 1797))


def test_digits_are_bytes_of_every_class() -> None:
    images = digits()
    assert images.size == (8, 8, 1)
    assert images.n_classes == 10
    assert (images.pixels.min(), images.pixels.max()) == (0, 255)


@pytest.mark.parametrize(
    "make",
    [lambda: Fixed(1.0), lambda: Data(700, **paper.TEMPERATURE), lambda: predicted_temperature(32)],
    ids=["no", "DT", "MT"],
)
def test_a_network_learns_under_every_kind_of_temperature(parts, make) -> None:
    train, fresh = parts
    looks: list[bool] = []
    model = train_network(train, make(), RECIPE, 0, lambda model: looks.append(model.training))
    said = say(model, fresh.pixels)
    assert (said.logits.argmax(1).numpy() == fresh.labels).mean() > 0.8
    assert looks == [False] * RECIPE.epochs
    assert (said.temperature is None) == isinstance(model.loss_fn.temperature, Data)


def test_the_seed_decides_everything(parts) -> None:
    train, fresh = parts
    runs = [
        say(train_network(train, predicted_temperature(32), RECIPE._replace(epochs=1), seed), fresh.pixels)
        for seed in (1, 1, 2)
    ]
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=0)
    assert not torch.equal(runs[0].logits, runs[2].logits)


def test_a_wrong_label_heats_its_row(parts) -> None:
    train, bad = corrupted(parts[0], LABELS, 0)
    model = train_network(train, Data(len(bad), **paper.TEMPERATURE), RECIPE, 0)
    assert roc_auc_score(bad, model.loss_fn.temperature.value) > 0.9


def test_standardised_logits_leave_confidence_to_the_temperature(parts) -> None:
    train, fresh = parts
    said = say(train_network(train, predicted_temperature(32), RECIPE._replace(standardised=True), 0), fresh.pixels)
    torch.testing.assert_close(said.logits.mean(1), torch.zeros(len(said.logits)), atol=1e-2, rtol=0)
    torch.testing.assert_close(said.logits.std(1, correction=0), torch.ones(len(said.logits)), atol=1e-2, rtol=0)


def test_a_network_refuses_pictures_it_was_not_made_for(parts) -> None:
    network = Network(parts[0], (4,))
    for pixels in (torch.zeros(2, 9, 8, 1, dtype=torch.uint8), torch.full((2, 8, 8, 1), torch.nan)):
        with pytest.raises(ValueError, match=r"made for bytes \(uint8\) of the shape \(rows, 8, 8, 1\), got"):
            network(pixels)


def test_what_is_learned_afterwards_is_the_best_temperature_of_each_group() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 1000)
    logits = rng.normal(size=(2000, 4)) * 2
    labels = (logits / np.array([0.7, 1.5])[group, None] + rng.gumbel(size=logits.shape)).argmax(1)
    said = Said(torch.tensor(logits).float(), torch.eye(2)[group], None)
    learned = learn_afterwards(said, labels, 0)(features=said.features).detach().numpy()
    for one in (0, 1):
        z, y = logits[group == one], labels[group == one]
        best = minimize_scalar(
            lambda t, z=z, y=y: (logsumexp(z / t, axis=1) - z[np.arange(len(y)), y] / t).mean(), bounds=(0.3, 9)
        )
        assert learned[group == one] == pytest.approx(best.x, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fifth_is_corrupted_and_the_rest_left_alone(parts, kind: str) -> None:
    images = parts[0]
    spoiled, bad = corrupted(images, kind, 3)
    assert bad.sum() == SHARE * len(bad)
    np.testing.assert_array_equal(spoiled.pixels[~bad], images.pixels[~bad])
    np.testing.assert_array_equal(spoiled.labels[~bad], images.labels[~bad])
    assert (spoiled.labels != images.labels).sum() == (bad.sum() if kind == LABELS else 0)
    assert ((spoiled.pixels != images.pixels).any((1, 2, 3)).sum() == bad.sum()) == (kind != LABELS)
    edges = [np.abs(np.diff(own.pixels[bad].astype(float), axis=1)).mean() for own in (spoiled, images)]
    assert edges[0] > 1.5 * edges[1] if kind == NOISE else edges[0] <= edges[1]
    np.testing.assert_array_equal(corrupted(images, kind, 3)[0].pixels, spoiled.pixels)


def test_the_nll_ranks_as_cleanlabs_self_confidence() -> None:
    rank = pytest.importorskip("cleanlab.rank")
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    labels = np.arange(50) % 4
    theirs = rank.get_self_confidence_for_each_label(labels, logits.softmax(1).double().numpy())
    ours = scores(Said(logits, logits, None), None, labels, None)[NLL].numpy()
    np.testing.assert_array_equal(np.argsort(-ours), np.argsort(theirs))


def test_everything_has_a_place_for_every_score(parts) -> None:
    effort = Effort(1, 200, (1, 2), Recipe((8,), 2, 64, 1e-2))
    told: list[float] = []
    found = everything(*parts, effort, Context(progress=told.append, seed=1))
    # A seed's numbers do not depend on which others are run.
    both = everything(*parts, effort._replace(seeds=2), Context())
    for name in ("aupr", "unseen", "spread", "accuracy"):
        alone, among = getattr(found, name), getattr(both, name)
        np.testing.assert_array_equal(alone[:, :, 0], among[:, :, 1])
    assert len(told) == len(KINDS) * len(NETWORKS)
    assert found.aupr.shape == (len(KINDS), len(DETECTORS), 1, 2)
    early = np.isnan(found.aupr[:, :, 0, 0])
    np.testing.assert_array_equal(early, [[score == AFTER for _, score in DETECTORS]] * len(KINDS))
    assert not np.isnan(found.aupr[..., -1]).any()
    unseen = [network in (DT, FAST) and score == HEAT for network, score in DETECTORS]
    np.testing.assert_array_equal(np.isnan(found.unseen[:, :, 0]), [unseen] * len(KINDS))
    assert (found.spread[:, 0] == 0).all()
    assert ((found.accuracy >= 0) & (found.accuracy <= 1)).all()


def test_outputs_are_kept_with_what_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stored, "OUTPUTS", tmp_path / "outputs")
    _stored.keep("some_entry", {"a": np.arange(3)}, seconds=601.0)
    kept = _stored.stored("some_entry")
    assert kept.arrays["a"].tolist() == [0, 1, 2]
    assert kept.made.startswith(
        "Redrawn from stored outputs: `python -m experiments.paper.some_entry` made them in 10 min"
    )


def test_training_anew_takes_pictures_and_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train_32x32.mat").touch()
    for gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert _stored.trains(Context(data=tmp_path), "svhn") == gpu
        assert not _stored.trains(Context(data=tmp_path), "cifar10")
        assert not _stored.trains(Context(), "svhn")
