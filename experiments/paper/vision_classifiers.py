"""Real classifiers, trained on a GPU and kept as small outputs: the paper's networks, and some under noisy labels.

Run as ``python -m experiments.paper.vision_classifiers`` with the pictures in ``LIKELY_DATA``; ``--only`` runs a part.
ResNet-50 and DenseNet-121 learn CIFAR-10 and SVHN by the paper's recipe, for Table 4. A shorter network learns CIFAR-10
from the labels of people who err (CIFAR-10N), with and without a temperature that learns, for ``noisy_classifiers``.
What is done is kept after every network, so that a run that is stopped loses one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from experiments.data import Images, Logits, load_images
from experiments.entries.entry import Context
from experiments.paper._graphed import Step, loss_on, make_optimizer, make_plan, take_steps
from experiments.paper._networks import Body, Classifier, densenet, resnet, short_resnet
from experiments.paper._stored import keep, stored
from experiments.paper._vision import Said, device, say
from likely import paper
from likely._solvers.training import Progress
from likely.calibration import FeatureTemperature, GlobalTemperature
from likely.losses import SoftmaxLoss
from likely.metrics import expected_calibration_error, negative_log_likelihood
from likely.optim import Supervised, clip_gradients, param_groups
from likely.parameters import Data, Fixed, Global, Parameter, Predicted

Array = NDArray[np.float64]
Look = Callable[[Progress], Any]
Scores = tuple[float, float, float]
NAME, NOISE = "vision_classifiers", "noisy_classifiers"  # of the files
BODIES: dict[str, Callable[[], Body]] = {"resnet50": resnet, "densenet121": densenet}
SETS = ("cifar10", "svhn")
NETWORKS = tuple(f"{images}_{body}" for body in BODIES for images in SETS)
ASKED, DESCRIBED = 10_000, 2500  # test rows whose logits are kept; rows of each part with features
# On the features of DenseNet-121 in the data folder, 64 leading directions in a byte each leave the NLL of
# FeatureTemperature within .0002 and its temperatures within 1.3 % of what all 1024 features give; 32: .002 and 2.8 %.
DIRECTIONS = 64


class Recipe(NamedTuple):
    """The paper's: Adam at a constant rate, betas (.9, .99), 300 epochs of 512 rows, no augmentation."""

    epochs: int = 300
    batch: int = 512
    rate: float = 1e-4
    held_out: int = 2500


def outputs(
    images: Images, fresh: Images, body: Body, recipe: Recipe, seed: int, look: Look = lambda _: None
) -> dict[str, NDArray[Any]]:
    """Train a network on the images but for some, and keep what it says of those and of fresh ones."""
    started = time.monotonic()
    kept_back = held_out(images, recipe.held_out, seed)
    train, rest = images.select(~kept_back), images.select(kept_back)
    torch.manual_seed(seed)
    model = Supervised(Classifier(train, body), SoftmaxLoss(Fixed(1.0))).to(device())
    groups = param_groups(model.model, model.loss_fn, recipe.rate)
    optimizer = make_optimizer(torch.optim.Adam, groups, betas=(0.9, 0.99))
    plan = make_plan(len(train.labels), recipe.epochs, recipe.batch, seed)
    taken = take_steps(Step(model, optimizer, plan, loss_on(train, model)), look, every=max(1, len(plan.rows) // 10))
    val, test = say(model, rest.pixels), say(model, fresh.pixels)
    known = say(model, train.pixels).logits.argmax(1).numpy() == train.labels
    both = torch.cat([val.features[:DESCRIBED], test.features[:DESCRIBED]]).numpy()
    described = leading(both, DIRECTIONS)
    return {
        "val_logits": val.logits.half().numpy(),
        "val_labels": rest.labels.astype(np.uint8),
        "val_features": described[: len(val.features[:DESCRIBED])],
        "test_logits": test.logits.half().numpy(),
        "test_labels": fresh.labels.astype(np.uint8),
        "test_features": described[len(val.features[:DESCRIBED]) :],
        "epochs": np.array(taken / (len(plan.rows) / recipe.epochs)),
        "training": np.array([len(train.labels), known.mean()]),
        "seconds": np.array(time.monotonic() - started),
    }


def held_out(images: Images, count: int, seed: int) -> NDArray[np.bool_]:
    """Some rows, about so many. Digits of one photograph overlap, so they stay together."""
    group = images.facts.get("photo", np.arange(len(images.labels)))
    names, group, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    chosen = order[np.cumsum(sizes[order]) <= count]
    return np.isin(group, chosen)


def leading(features: NDArray[np.float32], directions: int) -> NDArray[np.int8]:
    """Standardised features along the directions in which they vary most, in bytes.

    A rotation mixes the directions, so that each column has its share of the spread: who standardises them again, as a
    calibrator does, then weighs them as before.
    """
    deviation = features.std(0)
    x = (features - features.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    axes = randomized_svd(x, min(directions, *x.shape), n_iter=4, random_state=0)[2].T
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal([axes.shape[1]] * 2))[0]
    found = x @ axes @ rotation
    bytes_: NDArray[np.int8] = np.round(found / np.abs(found).max(0) * 127).astype(np.int8)
    return bytes_


def networks() -> dict[str, Logits]:
    """What is kept of the paper's networks, as ``load_logits`` would give it, by names such as ``cifar10_resnet50``."""
    arrays = _kept(NAME)
    found = {}
    for name in NETWORKS:
        if f"{name}_val_logits" not in arrays:
            continue
        parts = [
            [arrays[f"{name}_{part}_{what}"] for part in ("val", "test")] for what in ("logits", "labels", "features")
        ]
        logits, labels, features = (np.concatenate(own) for own in parts)
        sizes = [len(own) for own in parts[1]]
        known = np.concatenate([np.arange(n) < len(own) for n, own in zip(sizes, parts[2], strict=True)])
        calibration = np.repeat([True, False], sizes)
        described = features.astype(np.float32)
        found[name] = Logits(name, logits.astype(np.float32), labels.astype(np.int64), calibration, described, known)
    return found


def _kept(name: str) -> dict[str, NDArray[Any]]:
    try:
        return stored(name).arrays
    except FileNotFoundError:
        return {}


def train_networks(names: Iterable[str], data: Path, recipe: Recipe, rows: int | None, limit: float) -> None:
    """Train these networks, one after another, each for at most so many seconds, and keep what they say."""
    kept = _kept(NAME)
    for name in names:
        of, body = name.split("_")
        images, fresh = (_first(load_images(of, part, data), rows) for part in ("train", "test"))
        found = outputs(images, _first(fresh, ASKED), BODIES[body](), recipe, 0, watch(name, limit))
        kept |= {f"{name}_{what}": values for what, values in found.items()}
        right = (found["test_logits"].argmax(1) == found["test_labels"]).mean()
        seconds = sum(float(kept[f"{own}_seconds"]) for own in NETWORKS if f"{own}_seconds" in kept)
        print(
            f"{name}: right about {found['training'][1]:.2%} of the training rows and {right:.2%} of the test rows "
            f"after {found['epochs']:.0f} epochs and {found['seconds']:.0f} s; {keep(NAME, kept, seconds)}",
            flush=True,
        )


def watch(name: str, limit: float = float("inf")) -> Look:
    """Say how far it has come, and end it after so many seconds."""
    started = time.monotonic()

    def look(progress: Progress) -> bool:
        spent = time.monotonic() - started
        print(
            f"{name}: {progress.step} of {progress.max_steps} steps, loss {progress.loss:.4f}, {spent:.1f} s",
            flush=True,
        )
        return spent > limit

    return look


def _first(images: Images, rows: int | None) -> Images:
    return images.select(np.arange(len(images.labels))[:rows])


# Under noisy labels.

CLEAN, RANDOM, WORST = LABELS = ("clean", "random1", "worst")  # of the latter 17 and 40 % are wrong


PLAIN, ONE, DATA, ISOLATED = "cross-entropy", "one temperature", "data", "isolated"
JOINT, CALM = "joint", "joint, all one at first"
DESIGNS: dict[str, Callable[[int, int], Parameter]] = {  # the temperature, of so many rows or features
    PLAIN: lambda rows, features: Fixed(1.0),
    ONE: lambda rows, features: Global(**paper.TEMPERATURE),
    DATA: lambda rows, features: Data(rows, fallback="mean", **paper.TEMPERATURE),
    ISOLATED: lambda rows, features: Predicted(features, isolated=True, **paper.TEMPERATURE, **paper.NETWORK),
    JOINT: lambda rows, features: Predicted(features, **paper.TEMPERATURE, **paper.NETWORK),
    CALM: lambda rows, features: Predicted(features, **paper.TEMPERATURE),
}
AFTER = {"cross-entropy, then GS": GlobalTemperature, "cross-entropy, then LFS": FeatureTemperature}
METHODS = (*DESIGNS, *AFTER)
MEASURES = ("error", "ECE", "NLL")


class Effort(NamedTuple):
    """How many seeds, on which labels, and how the network is made and trained."""

    seeds: int = 3
    labels: tuple[str, ...] = LABELS
    widths: tuple[int, ...] = (64, 128, 256, 256)
    epochs: int = 24
    batch: int = 512
    rate: float = 3e-3
    decay: float = 0.05
    held_out: int = 2500
    shift: int = 4
    mirror: bool = True


class Found(NamedTuple):
    """Scores on fresh rows with clean labels, and on held-out rows whose labels are as noisy as those trained on.

    NaN stands for what has not been trained, and for held-out scores of what was fitted to those rows.
    """

    scores: Array  # (labels, methods, seeds, measures)
    held: Array  # the same
    noise: Array  # (labels,): the share of wrong ones

    @property
    def whole(self) -> Found:
        """The seeds for which everything has been trained."""
        done = np.isfinite(self.scores).all((0, 1, 3))
        return self._replace(scores=self.scores[:, :, done], held=self.held[:, :, done])


def study(
    images: Images, fresh: Images, effort: Effort, context: Context, look: Callable[[Found], Any] = lambda _: None
) -> Found:
    """Every design on all labels, seed by seed, the noisiest first; where ``look`` returns True that is all."""
    shape = (len(effort.labels), len(METHODS), effort.seeds, len(MEASURES))
    noise = [(given(images, labels).labels != images.labels).mean() for labels in effort.labels]
    found = Found(np.full(shape, np.nan), np.full(shape, np.nan), np.array(noise))
    places = [
        (seed, labels, design)
        for seed in range(effort.seeds)
        for labels in reversed(effort.labels)
        for design in DESIGNS
    ]
    for seed, labels, design in context.track(places):
        told = context.once(
            (seed, labels, design), judged, given(images, labels), fresh, design, effort, context.seed + seed
        )
        for method, (own, held) in told.items():
            at = (effort.labels.index(labels), METHODS.index(method), seed)
            found.scores[at], found.held[at] = own, held
        if look(found):
            break
    return found


def given(images: Images, labels: str) -> Images:
    """The images with the labels of this name."""
    if labels == CLEAN:
        return images
    if labels not in images.facts:
        raise ValueError(f"{images.name} has no labels {labels!r}: put cifar10n_labels.npz beside the picture sheets")
    return replace(images, labels=images.facts[labels].astype(np.int64))


def judged(images: Images, fresh: Images, design: str, effort: Effort, seed: int) -> dict[str, tuple[Scores, Scores]]:
    """Scores on fresh and on held-out rows of one network, and of what is fitted to it afterwards."""
    back = held_out(images, effort.held_out, seed)
    rest = images.select(back)
    model = trained(images.select(~back), design, effort, seed)
    held, said = say(model, rest.pixels), say(model, fresh.pixels)
    found = {design: (scored(said.tempered.numpy(), fresh.labels), scored(held.tempered.numpy(), rest.labels))}
    if design == PLAIN:
        for name, calibrator in AFTER.items():
            found[name] = (_afterwards(calibrator(), held, rest.labels, said, fresh.labels), (np.nan, np.nan, np.nan))
    return found


def trained(images: Images, design: str, effort: Effort, seed: int) -> Supervised:
    """A short residual network and its temperature; all designs start from the same weights and see the same rows."""
    torch.manual_seed(seed)
    network = Classifier(images, short_resnet(effort.widths, images.size[2]))
    temperature = DESIGNS[design](len(images.labels), effort.widths[-1])
    model = Supervised(network, SoftmaxLoss(temperature)).to(device())
    groups = param_groups(network, model.loss_fn, effort.rate, multiplier=paper.MULTIPLIER, weight_decay=effort.decay)
    optimizer = make_optimizer(torch.optim.AdamW, groups)
    clip_gradients(optimizer, model.loss_fn)
    plan = make_plan(
        len(images.labels), effort.epochs, effort.batch, seed, shift=effort.shift, mirror=effort.mirror, cycle=True
    )
    take_steps(Step(model, optimizer, plan, loss_on(images, model)))
    return model


def scored(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Scores:
    """Error, ECE and NLL."""
    probabilities = torch.softmax(torch.from_numpy(logits).double(), 1)
    error = float((logits.argmax(1) != labels).mean())
    nll = float(negative_log_likelihood(labels, logits=logits))
    return error, float(expected_calibration_error(labels, probabilities)), nll


def _afterwards(
    calibrator: Any, held: Said, held_labels: NDArray[np.int64], said: Said, labels: NDArray[np.int64]
) -> Scores:
    calibrator.fit(held.logits.numpy(), held_labels, held.features.numpy())
    return scored(calibrator.transform(said.logits.numpy(), said.features.numpy()), labels)


def train_under_noise(data: Path, effort: Effort, rows: int | None, limit: float) -> None:
    """The study on CIFAR-10, for at most so many seconds, kept after every network."""
    images, fresh = (_first(load_images("cifar10", part, data), rows) for part in ("train", "test"))
    started = time.monotonic()

    def look(found: Found) -> bool:
        spent = time.monotonic() - started
        done = np.isfinite(found.scores[..., 0]).sum()
        print(f"noise: {done} of {found.scores[..., 0].size} cells, {spent:.0f} s", flush=True)
        keep(NOISE, found._asdict(), spent)
        return spent > limit

    found = study(images, fresh, effort, Context(), look).whole
    for labels, own, held in zip(effort.labels, found.scores.mean(2), found.held.mean(2), strict=True):
        for method, (error, ece, nll), (noisy, *_) in zip(METHODS, own, held, strict=True):
            print(f"{labels:9} {method:24} error {error:.4f} ECE {ece:.4f} NLL {nll:.4f}; held out, error {noisy:.4f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is asked for on the pictures in LIKELY_DATA."""
    parts = (*NETWORKS, NOISE)
    told = argparse.ArgumentParser(prog=f"python -m experiments.paper.{NAME}", description=__doc__)
    told.add_argument("--only", nargs="+", choices=parts, default=parts, help="train these")
    told.add_argument("--rows", type=int, help="use the first so many rows, to try it out")
    told.add_argument("--epochs", type=int, help="so many instead of the recipe's")
    told.add_argument("--seeds", type=int, default=Effort().seeds, help="of the networks under noisy labels")
    told.add_argument("--limit", type=float, default=100, help="seconds of each of the paper's networks")
    told.add_argument("--noise-limit", type=float, default=480, help="seconds of all networks under noisy labels")
    asked = told.parse_args(arguments)
    data = Path(os.environ["LIKELY_DATA"])
    print(f"on {device()}, torch {torch.__version__}", flush=True)
    recipe, effort = Recipe(), Effort(seeds=asked.seeds)
    if asked.epochs:
        recipe, effort = recipe._replace(epochs=asked.epochs), effort._replace(epochs=asked.epochs)
    train_networks([name for name in NETWORKS if name in asked.only], data, recipe, asked.rows, asked.limit)
    if NOISE in asked.only:
        train_under_noise(data, effort, asked.rows, asked.noise_limit)


if __name__ == "__main__":
    main()
