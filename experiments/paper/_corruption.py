"""Rows corrupted on purpose, networks trained on them, and how well each score of a row finds the corrupted ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.metrics import average_precision_score
from torch import Tensor

from experiments.data import Images
from experiments.entries.entry import Context
from experiments.paper._residual import train_any
from experiments.paper._vision import Recipe, Said, learn_afterwards, predicted_temperature, say
from likely import functional, paper
from likely.optim import Supervised
from likely.parameters import Data, Fixed, Parameter, Predicted

Array = NDArray[np.float64]
SHARE = 0.2  # of the rows is corrupted
LABELS, NOISE, BLUR = KINDS = ("another label", "noise", "blur")
PLAIN, DT, FAST, MT, CALM = NETWORKS = ("no temperature", "DT", "DT, ten times faster", "MT", "MT, all one at first")
NLL, DOUBT, AFTER, HEAT = "NLL of the label", "1 − confidence", "temperature learned afterwards", "temperature"
SCORES = {PLAIN: (NLL, DOUBT, AFTER)} | dict.fromkeys(NETWORKS[1:], (HEAT, DOUBT))
DETECTORS = tuple((network, score) for network in NETWORKS for score in SCORES[network])


class Effort(NamedTuple):
    """How many seeds and rows, and how the networks are trained."""

    seeds: int
    rows: int
    looks: tuple[int, ...]  # epochs after which to judge; the last one is among them
    recipe: Recipe


class Found(NamedTuple):
    """AUPR of every detector, on rows that were trained on and on fresh ones, and how far temperatures have moved.

    The first axes are (kinds, detectors or networks, seeds). NaN stands where there is no score: data temperatures of
    fresh rows, and what is learned afterwards before the last look.
    """

    aupr: Array  # (…, looks)
    unseen: Array
    spread: Array  # (…, looks): standard deviation of the log temperature
    accuracy: Array  # on fresh clean rows
    looks: NDArray[np.int64] = np.array([1, 3, 6])  # epochs
    rows: NDArray[np.int64] = np.array(6000)  # of the training set


def everything(images: Images, fresh: Images, effort: Effort, context: Context) -> Found:
    """All kinds of corruption, seeds and networks."""
    detectors, networks = ((len(KINDS), len(own), effort.seeds) for own in (DETECTORS, NETWORKS))
    looks = len(effort.looks)
    found = Found(
        np.empty((*detectors, looks)),
        np.empty(detectors),
        np.empty((*networks, looks)),
        np.empty(networks),
        np.array(effort.looks),
        np.array(min(effort.rows, len(images.labels))),
    )
    work = [(kind, seed, network) for kind in KINDS for seed in range(effort.seeds) for network in NETWORKS]
    for kind, seed, network in context.track(work):
        of_network = (KINDS.index(kind), NETWORKS.index(network), seed)
        of_scores = (KINDS.index(kind), [DETECTORS.index((network, score)) for score in SCORES[network]], seed)
        trial = Trial(images, fresh, kind, effort, context.seed + seed)
        found.aupr[of_scores], found.unseen[of_scores], found.spread[of_network], found.accuracy[of_network] = (
            context.once((kind, seed, network), trial.measure, network)
        )
    return found


class Trial:
    """A corrupted set that a network is trained on, and fresh rows corrupted in the same way."""

    def __init__(self, images: Images, fresh: Images, kind: str, effort: Effort, seed: int) -> None:
        self.effort, self.seed, self.clean = effort, seed, fresh
        chosen = np.random.default_rng(seed).permutation(len(images.labels))[: effort.rows]
        self.images, self.bad = corrupted(images.select(chosen), kind, seed)
        self.fresh, self.fresh_bad = corrupted(fresh, kind, seed + 1_000_000)

    def measure(self, network: str) -> tuple[Array, Array, Array, float]:
        """What :class:`Found` keeps, for the scores of one network."""
        temperature = make_temperature(network, len(self.bad), self.effort.recipe.widths[-1])
        curves: list[list[float]] = []
        spread: list[float] = []
        epochs = iter(range(1, self.effort.recipe.epochs + 1))
        afterwards: Parameter | None = None

        def look(model: Supervised) -> None:
            nonlocal afterwards
            epoch = next(epochs)
            if epoch not in self.effort.looks:
                return
            said = say(model, self.images.pixels)
            if network == PLAIN and epoch == self.effort.looks[-1]:
                afterwards = learn_afterwards(said, self.images.labels, self.seed)
            heat = temperature.value.cpu() if isinstance(temperature, Data) else said.temperature
            own = scores(said, heat, self.images.labels, afterwards)
            curves.append([precision(self.bad, own.get(score)) for score in SCORES[network]])
            spread.append(float(own[HEAT].log().std()))

        model = train_any(self.images, temperature, self.effort.recipe, self.seed, look)
        said = say(model, self.fresh.pixels)
        own = scores(said, said.temperature, self.fresh.labels, afterwards)
        unseen = [precision(self.fresh_bad, own.get(score)) for score in SCORES[network]]
        right = say(model, self.clean.pixels).logits.argmax(1).numpy() == self.clean.labels
        return np.array(curves).T, np.array(unseen), np.array(spread), float(right.mean())


def corrupted(images: Images, kind: str, seed: int) -> tuple[Images, NDArray[np.bool_]]:
    """The images with a fifth of the rows corrupted, and which."""
    rng = np.random.default_rng(seed)
    bad = rng.permutation(len(images.labels)) < SHARE * len(images.labels)
    pixels, labels = images.pixels.copy(), images.labels.copy()
    if kind == LABELS:
        labels[bad] = (labels[bad] + rng.integers(1, images.n_classes, bad.sum())) % images.n_classes
    elif kind == NOISE:  # half the range of a pixel
        pixels[bad] = (pixels[bad] + rng.normal(0, 128, pixels[bad].shape)).clip(0, 255).astype(np.uint8)
    else:
        width = images.size[0] / 16  # two pixels of CIFAR-10
        pixels[bad] = gaussian_filter(pixels[bad].astype(np.float32), (0, width, width, 0)).astype(np.uint8)
    return Images(f"{images.name}, {kind}", pixels, labels), bad


def make_temperature(network: str, rows: int, features: int) -> Parameter:
    """Of one kind. DT and MT are the paper's: MT starts from Glorot's random weights, so it differs by row at once."""
    made: dict[str, Callable[[], Parameter]] = {
        PLAIN: lambda: Fixed(1.0),
        DT: lambda: Data(rows, lr=0.1, **paper.TEMPERATURE),
        FAST: lambda: Data(rows, lr=1.0, **paper.TEMPERATURE),
        MT: lambda: predicted_temperature(features),
        CALM: lambda: Predicted(features, **paper.TEMPERATURE),
    }
    return made[network]()


def scores(
    said: Said, heat: Tensor | None, labels: NDArray[np.int64], afterwards: Parameter | None
) -> dict[str, Tensor]:
    """What the network holds against each row: higher is worse. Its own doubt leaves the temperature aside."""
    nll = functional.softmax_nll(said.logits, torch.from_numpy(labels), temperature=1.0, reduction="none")
    found = {NLL: nll, DOUBT: 1 - said.logits.softmax(1).amax(1)}
    if heat is not None:
        found[HEAT] = heat
    if afterwards is not None:
        with torch.no_grad():
            found[AFTER] = afterwards(features=said.features)
    return found


def precision(bad: NDArray[np.bool_], score: Tensor | None) -> float:
    """The area under the precision-recall curve, NaN without a score."""
    return float("nan") if score is None else float(average_precision_score(bad, score))
