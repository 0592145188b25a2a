"""Classifiers under noisy labels: the verdict follows from numbers, and the choice from held-out rows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.data import Images
from experiments.entries import Context
from experiments.entries.cores import one_thread
from experiments.paper import _stored, noisy_classifiers, vision_classifiers
from experiments.paper._vision import digits
from experiments.paper.noisy_classifiers import GS, JOINTS, LFS, chosen, judge
from experiments.paper.vision_classifiers import (
    CALM,
    CLEAN,
    DATA,
    DESIGNS,
    JOINT,
    LABELS,
    MEASURES,
    METHODS,
    NOISE,
    PLAIN,
    RANDOM,
    WORST,
    Effort,
    Found,
    given,
    judged,
    scored,
    study,
)
from presentable import check_presentable

TINY = Effort(2, (CLEAN, WORST), (8, 8), 1, 64, 1e-2, held_out=100, shift=0, mirror=False)
LEARNS = TINY._replace(widths=(16, 32), epochs=15)


def flipped(images: Images) -> Images:
    """The images with labels of which two fifths were replaced by another class."""
    rng = np.random.default_rng(0)
    wrong = rng.permutation(len(images.labels)) < 0.4 * len(images.labels)
    other = rng.integers(1, images.n_classes, len(images.labels))
    worst = np.where(wrong, (images.labels + other) % images.n_classes, images.labels)
    return replace(images, facts={WORST: worst})


@pytest.fixture(autouse=True)
def alone():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def parts() -> tuple[Images, Images]:
    images = digits()
    return flipped(images.select(np.arange(600))), images.select(np.arange(1200, 1797))


def found(seeds: int = 3, labels: tuple[str, ...] = LABELS) -> Found:
    """Everything alike, but for chance."""
    rng = np.random.default_rng(0)
    shape = (len(labels), len(METHODS), seeds, len(MEASURES))
    scores, held = 0.3 + rng.normal(0, 1e-4, shape), 0.5 + rng.normal(0, 1e-4, shape)
    held[:, len(DESIGNS) :] = np.nan
    return Found(scores, held, np.linspace(0, 0.4, len(labels)))


@pytest.mark.parametrize(
    ("error", "nll", "verdict"),
    [(-0.03, 0.0, "holds"), (-0.01, 0.0, "holds in part"), (0.0, -0.1, "holds in part"), (0.01, 0.1, "does not hold")],
)
def test_the_verdict_follows_from_the_worst_labels(error: float, nll: float, verdict: str) -> None:
    made = found()
    made.held[-1, METHODS.index(CALM), :, 0] -= 0.1
    made.scores[-1, METHODS.index(CALM), :, MEASURES.index("error")] += error
    made.scores[-1, METHODS.index(CALM), :, MEASURES.index("NLL")] += nll
    judged_as, notes, bar = judge(made)
    assert judged_as == verdict
    assert bar.value == pytest.approx(-100 * error, abs=0.05)
    assert bar.met == (verdict == "holds")
    assert bar.case == CALM
    assert f"“{CALM}”, which gains {bar.measured}." in notes


def test_the_joint_temperature_is_chosen_by_held_out_rows_alone() -> None:
    made = found()
    for place, method in enumerate(JOINTS):
        made.scores[-1, METHODS.index(method), :, 0] = 0.1 * place
        made.held[-1, METHODS.index(method), :, 0] = 0.5 - 0.1 * place
    made.held[-1, METHODS.index(DATA), :, 0] = 0.0  # no joint one
    assert chosen(made) == JOINTS[-1]
    made.held[0] = 0.0  # other labels do not count
    assert chosen(made) == JOINTS[-1]


def test_seeds_that_were_not_finished_are_left_out() -> None:
    made = found(seeds=3)
    made.scores[1, 2, 2] = np.nan
    assert made.whole.scores.shape == (len(LABELS), len(METHODS), 2, len(MEASURES))
    np.testing.assert_array_equal(made.whole.held, made.held[:, :, :2])


def test_labels_that_are_not_there_are_named(parts: tuple[Images, Images]) -> None:
    images = parts[0]
    assert (given(images, WORST).labels != images.labels).mean() == pytest.approx(0.4)
    assert given(images, CLEAN) is images
    with pytest.raises(ValueError, match=r"put cifar10n_labels\.npz beside"):
        given(images, RANDOM)


def test_why_a_picture_does_not_tell_is_said_where_rows_do() -> None:
    made = found()
    assert "cannot single out" not in judge(made)[1]
    made.scores[-1, METHODS.index(DATA), :, 0] -= 0.02
    assert "One for each training row can, and gains +2.0 ± 0.0 points." in judge(made)[1]


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_learns(design: str, parts: tuple[Images, Images]) -> None:
    train, fresh = parts
    told = judged(train, fresh, design, LEARNS, 0)
    error, ece, nll = told[design][0]
    assert error < 0.2
    assert 0 <= ece < 0.6
    assert nll < 1.5
    assert told[design][1][0] < 0.2
    assert set(told) == ({PLAIN, GS, LFS} if design == PLAIN else {design})


def test_what_is_fitted_afterwards_keeps_the_classes_and_lowers_the_nll(parts: tuple[Images, Images]) -> None:
    train, fresh = parts
    told = judged(train, fresh, PLAIN, LEARNS, 0)
    for method in (GS, LFS):
        assert told[method][0][0] == told[PLAIN][0][0]
        assert np.isnan(told[method][1]).all()
        assert told[method][0][2] < told[PLAIN][0][2] + 0.01


def test_the_seed_decides_everything(parts: tuple[Images, Images]) -> None:
    told = [judged(*parts, JOINT, TINY, seed) for seed in (0, 0, 1)]
    assert told[0] == told[1]
    assert told[0] != told[2]


def test_scores_are_those_of_the_definitions() -> None:
    logits = np.log(np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], np.float32))
    error, ece, nll = scored(logits, np.array([0, 1, 1, 1]))
    assert error == 0.25
    assert ece == pytest.approx((0.1 + 0.6 + 0.3 + 0.2) / 4)
    assert nll == pytest.approx(-np.log([0.9, 0.4, 0.7, 0.8]).mean(), rel=1e-6)


def test_a_study_begins_with_the_worst_labels_and_ends_where_it_is_told_to(monkeypatch) -> None:
    asked: list[tuple[str, int, int]] = []

    def fake(images: Images, fresh: Images, design: str, effort: Effort, seed: int):
        asked.append((design, seed, int(images.labels[0])))
        more = (GS, LFS) if design == PLAIN else ()
        return dict.fromkeys((design, *more), ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))

    monkeypatch.setattr(vision_classifiers, "judged", fake)
    images = Images("two", np.zeros((2, 8, 8, 1), np.uint8), np.array([0, 1]), {WORST: np.array([1, 1])})
    made = study(images, images, TINY, Context(), lambda so_far: len(asked) == len(DESIGNS) + 2)
    assert asked[: len(DESIGNS)] == [(design, 0, 1) for design in DESIGNS]
    assert [label for *_, label in asked[len(DESIGNS) :]] == [0, 0]
    np.testing.assert_array_equal(made.noise, [0, 0.5])
    assert np.isfinite(made.scores[1, :, 0]).all()
    assert np.isfinite(made.scores[0, :, 0, 0]).sum() == 4  # two networks, and two fitted to the first
    assert made.whole.scores.shape[2] == 0
    assert np.isfinite(study(images, images, TINY, Context(seed=5)).scores).all()
    assert {seed for _, seed, _ in asked[len(DESIGNS) + 2 :]} == {5, 6}


def test_it_trains_where_pictures_and_a_gpu_are(parts: tuple[Images, Images], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_classifiers, "trains", lambda context, name: True)
    monkeypatch.setattr(noisy_classifiers, "load_images", lambda name, part, data: parts[part == "test"])
    monkeypatch.setattr(noisy_classifiers, "Effort", lambda: TINY)
    told: list[float] = []
    result = noisy_classifiers.run(Context(progress=told.append))
    check_presentable(result)
    assert len(result.pictures) == 2
    assert len(result.bars) == 1
    assert list(result.tables[0].frame) == list(DESIGNS)
    assert list(result.tables[0].frame.index) == ["clean, 0% wrong", "worst, 40% wrong"]
    assert told[-1] == 1.0


def test_without_pictures_or_gpu_what_is_kept_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stored, "OUTPUTS", tmp_path)
    made = found()
    made.scores[-1, METHODS.index(JOINT), :, 0] = 0.25
    made.held[-1, METHODS.index(JOINT), :, 0] = 0.4
    made.scores[0, METHODS.index(CALM), -1] = np.nan  # the last seed was not finished
    _stored.keep(NOISE, made._asdict(), 60)
    result = noisy_classifiers.run(Context())
    check_presentable(result)
    assert result.notes.startswith(f"Redrawn from stored outputs: `python -m experiments.paper.{NOISE}`")
    assert result.verdict == "holds"
    assert "mean over 2 seeds" in result.tables[0].caption
    assert result.tables[0].frame.loc["worst, 40% wrong", JOINT] == pytest.approx(75)
    _stored.keep(NOISE, found(seeds=1)._asdict(), 60)
    with pytest.raises(ValueError, match="fewer than two seeds"):
        noisy_classifiers.run(Context())


def test_what_is_trained_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[Images, Images]) -> None:
    monkeypatch.setattr(_stored, "OUTPUTS", tmp_path)
    monkeypatch.setenv("LIKELY_DATA", str(tmp_path))
    monkeypatch.setattr(vision_classifiers, "load_images", lambda name, part, data: parts[part == "test"])
    monkeypatch.setattr(vision_classifiers, "Effort", lambda seeds=1: TINY._replace(seeds=seeds))
    vision_classifiers.main(["--only", NOISE, "--rows", "200", "--seeds", "1"])
    kept = Found(**_stored.stored(NOISE).arrays)
    assert kept.scores.shape == (2, len(METHODS), 1, len(MEASURES))
    assert np.isfinite(kept.scores).all()
