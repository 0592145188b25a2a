"""The two figures of pictures: what is said follows from numbers, and what is kept draws them without training."""

from pathlib import Path

import numpy as np
import pytest

from experiments.data import Images
from experiments.entries import Context
from experiments.paper import _corruption as corruption, corruption_aupr, svhn_temperatures
from experiments.paper._stored import OUTPUTS, stored
from experiments.paper._vision import Recipe
from experiments.paper.svhn_temperatures import DESIGNS, LEVEL, TOGETHER
from presentable import check_presentable

RNG = np.random.default_rng(0)
TINY = Recipe((8,), 1, 64, 1e-2)


def corruption_found(**at: float) -> corruption.Found:
    """Three seeds with the AUPR named: `mt`, `dt`, and the doubt of the network under DT."""
    rng = np.random.default_rng(1)
    kinds, seeds = len(corruption.KINDS), 3
    aupr = np.full((kinds, len(corruption.DETECTORS), seeds, 2), 0.3) + rng.normal(0, 1e-3, (seeds, 2))
    places = {"mt": (corruption.MT, corruption.HEAT), "dt": (corruption.DT, corruption.HEAT)}
    places["doubt"] = (corruption.DT, corruption.DOUBT)
    for name, value in at.items():
        aupr[:, corruption.DETECTORS.index(places[name])] = value + rng.normal(0, 1e-3, (kinds, seeds, 2))
    networks = (kinds, len(corruption.NETWORKS), seeds)
    looks = np.array([1, 3])
    return corruption.Found(aupr, aupr[..., -1], np.ones((*networks, 2)), np.full(networks, 0.7), looks)


@pytest.mark.parametrize(
    "at",
    [
        {"mt": 0.9, "dt": 0.4, "doubt": 0.6},
        {"mt": 0.9, "dt": 0.4, "doubt": 0.3},
        {"mt": 0.1, "dt": 0.4, "doubt": 0.6},
        {"mt": 0.1, "dt": 0.4, "doubt": 0.3},
    ],
)
def test_corruption_says_its_numbers(at: dict[str, float]) -> None:
    found = corruption_found(**at)
    notes = corruption_aupr.describe(found)
    mt = (corruption.MT, corruption.HEAT)
    difference = corruption_aupr.differences(found)["MT above DT"][corruption.NOISE]
    assert difference.mean == pytest.approx(at["mt"] - at["dt"], abs=0.01)
    kinds = ", ".join(corruption.KINDS) if at["mt"] > at["dt"] else "nowhere"
    assert f"better than data temperatures (DT): {kinds}." in notes
    cell = corruption_aupr.summarise(found).loc[mt, corruption.NOISE]
    assert float(cell.split(" ± ")[0]) == pytest.approx(at["mt"], abs=0.01)


def svhn_found(auc: float, blur: float, level: float) -> svhn_temperatures.Found:
    rng = np.random.default_rng(1)
    agreement = rng.normal(0, 1e-3, (len(DESIGNS), 2, 3, 5))
    agreement[..., 0] += 0.2
    agreement[..., 1] -= 0.2
    agreement[DESIGNS.index(TOGETHER), 0, :, :2] += np.array([auc - 0.2, blur + 0.2])
    agreement[DESIGNS.index(LEVEL), 0, :, 0] += level - 0.2
    labels = np.arange(100, dtype=np.uint8) % 10
    said = np.where(np.arange(100) % 7, labels, 9 - labels).astype(np.uint8)
    heat = rng.uniform(0.5, 2, (len(DESIGNS), 100)).astype(np.float16)
    return svhn_temperatures.Found(agreement, heat, np.stack([said] * len(DESIGNS)), labels)


@pytest.mark.parametrize("auc", [0.8, 0.3])
def test_svhn_says_its_numbers(auc: float) -> None:
    notes = svhn_temperatures.describe(svhn_found(auc, 0.3, 0.2))
    assert ("lowest, not highest" in notes) == (auc < 0.5)


def test_what_is_computed_from_pictures_means_what_it_is_called() -> None:
    board = (np.indices((32, 32)).sum(0) // 4 % 2 * 255).astype(np.uint8)[..., None].repeat(3, 2)
    from scipy.ndimage import gaussian_filter

    pictures = np.stack([board, gaussian_filter(board, (2, 2, 0)), board // 4 + 96, board // 2])
    images = Images("four", pictures, np.arange(4), {"side": np.array([60, 10, 40, 30])})
    found = svhn_temperatures.properties(images)
    assert {name: int(values.argmax()) for name, values in found.items()} == {
        "blurred": 1, "small": 1, "pale": 1, "dark": 3
    }  # fmt: skip
    # Contrast does not count as blur.
    assert found["blurred"][[0, 2, 3]] == pytest.approx(found["blurred"][0], rel=0.02)


def test_photographs_are_not_cut_apart() -> None:
    rng = np.random.default_rng(1)
    photo = np.sort(rng.integers(0, 40, 200))
    images = Images("some", np.zeros((200, 8, 8, 3), np.uint8), np.zeros(200, int), {"photo": photo})
    seen = svhn_temperatures.split(images)
    assert set(photo[seen]).isdisjoint(photo[~seen])
    assert 0.7 < seen.mean() < 0.9


def test_both_run_from_end_to_end_on_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corruption_aupr, "QUICK", corruption.Effort(2, 150, (1,), TINY))
    monkeypatch.setattr(svhn_temperatures, "QUICK", svhn_temperatures.Effort(2, TINY))
    for module, pictures in ((corruption_aupr, 2), (svhn_temperatures, 3)):
        told: list[float] = []
        result = module.run(Context(quick=True, progress=told.append))
        check_presentable(result)
        assert "digits" in result.notes
        assert len(result.pictures) == pictures
        assert told[-1] == 1.0


@pytest.mark.parametrize("module", [corruption_aupr, svhn_temperatures])
def test_without_pictures_or_gpu_what_is_kept_is_drawn(module) -> None:
    told: list[float] = []
    result = module.run(Context(progress=told.append))
    check_presentable(result)
    assert result.notes.startswith("Redrawn from stored outputs: `python -m experiments.paper.")
    assert not told


def test_what_is_kept_is_small_and_holds_no_pictures() -> None:
    names = ("corruption_aupr", "svhn_temperatures")
    assert sum((OUTPUTS / f"{name}.npz").stat().st_size for name in names) < 200_000
    aupr = corruption.Found(**stored("corruption_aupr").arrays)
    seeds = 5  # and as many of the digits, where they were trained on a GPU
    kinds, detectors, networks = (len(own) for own in (corruption.KINDS, corruption.DETECTORS, corruption.NETWORKS))
    assert aupr.aupr.shape == (kinds, detectors, seeds, len(aupr.looks))
    assert aupr.accuracy.shape == (kinds, networks, seeds)
    svhn = svhn_temperatures.Found(**stored("svhn_temperatures").arrays)
    assert svhn.agreement.shape in [(len(DESIGNS), 2, n, 5) for n in (svhn_temperatures.FULL.seeds, seeds)]
    assert svhn.temperature.shape == svhn.said.shape == (len(DESIGNS), len(svhn.labels))
    assert svhn.temperature.min() > 0


def test_where_the_pictures_are_there_the_kept_order_is_shown_in_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = svhn_temperatures.Found(**stored("svhn_temperatures").arrays).labels.astype(np.int64)
    pixels = np.zeros((len(labels), 32, 32, 3), np.uint8)
    monkeypatch.setattr(svhn_temperatures, "list_images", lambda data: ["svhn"])
    monkeypatch.setattr(svhn_temperatures, "load_images", lambda *_: Images("svhn test", pixels, labels))
    result = svhn_temperatures.run(Context(data=tmp_path))
    check_presentable(result)
    assert [picture.svg.count("<image") for picture in result.pictures] == [2, 2, 0]
    monkeypatch.setattr(svhn_temperatures, "load_images", lambda *_: Images("other", pixels, 9 - labels))
    with pytest.raises(ValueError, match="their labels differ"):
        svhn_temperatures.run(Context(data=tmp_path))


def test_the_sheet_shows_the_extremes_in_order() -> None:
    found = svhn_found(0.3, -0.3, 0.7)
    shades = (found.temperature[0].argsort().argsort() * 2).astype(np.uint8)  # brighter is hotter
    pixels = np.broadcast_to(shades[:, None, None, None], (100, 8, 8, 3))
    images = Images("shades", np.ascontiguousarray(pixels), found.labels.astype(np.int64))
    picture = svhn_temperatures._sheet(images, found, TOGETHER)
    assert "→" in picture.svg
    assert f"{found.temperature[0].min():.2f}" in picture.svg
