"""The paper's networks and how they are trained: their sizes, moving pictures, steps a graph could replay, outputs."""

from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from experiments.data import Images
from experiments.entries.cores import one_thread
from experiments.paper import _graphed, _stored, vision_classifiers
from experiments.paper._graphed import Step, loss_on, make_optimizer, make_plan, moved, take_steps
from experiments.paper._networks import Classifier, densenet, resnet, short_resnet
from experiments.paper._vision import digits, half, predicted_temperature, say
from experiments.paper.vision_classifiers import NAME, NETWORKS, Recipe, held_out, leading, networks, outputs
from likely.calibration import FeatureTemperature
from likely.losses import SoftmaxLoss
from likely.optim import Supervised, clip_gradients, param_groups
from likely.parameters import Data, Fixed, Global

SMALL = {
    "resnet": lambda: resnet((1, 1, 1, 1), 4, channels=1),
    "densenet": lambda: densenet((2, 2, 2, 2), 4, channels=1),
    "short": lambda: short_resnet((8, 16), channels=1),
}


@pytest.fixture(autouse=True)
def alone():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def images() -> Images:
    return digits()


def supervised(images: Images, temperature=None) -> Supervised:
    torch.manual_seed(0)
    network = Classifier(images, SMALL["short"]())
    return Supervised(network, SoftmaxLoss(temperature or Fixed(1.0)))


@pytest.mark.parametrize(("make", "width", "weights"), [(resnet, 2048, 25_557_032), (densenet, 1024, 7_978_856)])
def test_the_papers_networks_have_the_published_number_of_weights(make, width: int, weights: int) -> None:
    with torch.device("meta"):
        body = make()
        head = nn.Linear(body.width, 1000)
    assert body.width == width
    assert sum(p.numel() for module in (body.layers, head) for p in module.parameters()) == weights


@pytest.mark.parametrize(("make", "places"), [(resnet, [16, 8, 8, 4, 2, 1]), (densenet, [16, 8, 4, 2, 1])])
def test_the_papers_networks_see_small_pictures_at_these_sizes(make, places: list[int]) -> None:
    with torch.device("meta"):
        x, sides = torch.zeros(2, 3, 32, 32), []
        for layer in list(make().layers)[:-2]:
            x = layer(x)
            sides.append(x.shape[-1])
    assert sorted(set(sides), reverse=True) == sorted(set(places), reverse=True)


@pytest.mark.parametrize("name", SMALL)
def test_features_are_what_the_logits_are_linear_in(name: str, images: Images) -> None:
    body = SMALL[name]()
    network = Classifier(images, body).eval()
    logits, features = network(torch.from_numpy(images.pixels[:20]))
    assert features.shape == (20, body.width)
    torch.testing.assert_close(logits, features @ network.head.weight.T + network.head.bias)
    assert features.std(0).max() > 0


@pytest.mark.parametrize("mirrors", [True, False])
@pytest.mark.parametrize("shifts", [True, False])
def test_pictures_move_as_numpy_would_move_them(shifts: bool, mirrors: bool) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 5, 7, 3)).astype(np.uint8)
    rows, shift, mirror = np.array([4, 0, 4, 2]), rng.integers(-2, 3, (4, 2)), np.array([True, False, False, True])
    found = moved(
        torch.from_numpy(pixels),
        torch.from_numpy(rows),
        torch.from_numpy(shift) if shifts else None,
        torch.from_numpy(mirror) if mirrors else None,
    )
    for row, (down, right), turned, own in zip(rows, shift, mirror, found.numpy(), strict=True):
        picture = pixels[row]
        if shifts:
            padded = np.pad(picture, ((2, 2), (2, 2), (0, 0)), mode="reflect")
            picture = padded[2 + down : 7 + down, 2 + right : 9 + right]
        np.testing.assert_array_equal(own, picture[:, ::-1] if mirrors and turned else picture)


def test_a_plan_shows_every_row_once_an_epoch_and_follows_from_its_seed() -> None:
    plan = make_plan(103, epochs=3, batch=10, seed=1, shift=2, mirror=True, cycle=True)
    assert plan.rows.shape == plan.mirror.shape == (30, 10)
    for epoch in plan.rows.reshape(3, 100):
        assert len(epoch.unique()) == 100
    assert (plan.shift.min(), plan.shift.max()) == (-2, 2)
    assert 0 < plan.factor.min() < plan.factor[-1] + 0.1 < 0.2
    assert plan.factor.argmax() in (6, 7)
    again, other = (make_plan(103, 3, 10, seed, shift=2, mirror=True, cycle=True) for seed in (1, 2))
    assert all(torch.equal(own, same) for own, same in zip(plan, again, strict=True))
    assert not torch.equal(plan.rows, other.rows)
    assert make_plan(103, 3, 10, 0).factor.unique().tolist() == [1.0]
    with pytest.raises(ValueError, match="take a smaller batch"):
        make_plan(9, 1, 10, 0)


@pytest.mark.parametrize(
    "make", [lambda: Fixed(1.0), lambda: predicted_temperature(16), lambda: Data(300)], ids=["no", "MT", "DT"]
)
def test_steps_are_those_of_a_plain_loop(make, images: Images) -> None:
    some = images.select(np.arange(300))
    plan = make_plan(300, epochs=1, batch=60, seed=3, shift=1, cycle=True)
    taken, by_hand = (supervised(images, make()) for _ in range(2))
    optimizer = make_optimizer(torch.optim.AdamW, param_groups(taken.model, taken.loss_fn, 0.01, weight_decay=0.1))
    clip_gradients(optimizer, taken.loss_fn)
    assert take_steps(Step(taken, optimizer, plan, loss_on(some, taken))) == len(plan.rows)

    plain = torch.optim.AdamW(param_groups(by_hand.model, by_hand.loss_fn, 0.01, weight_decay=0.1))
    tops = [group["lr"] for group in plain.param_groups]
    clip_gradients(plain, by_hand.loss_fn)
    for rows, shift, factor in zip(plan.rows, plan.shift, plan.factor, strict=True):
        for group, top in zip(plain.param_groups, tops, strict=True):
            group["lr"] = float(factor) * top
        plain.zero_grad()
        pixels = moved(torch.from_numpy(some.pixels), rows, shift)
        with half(torch.device("cpu")):
            loss = by_hand(pixels, torch.from_numpy(some.labels)[rows], index=rows)
        loss.backward()
        plain.step()
    assert not taken.training
    for (name, own), theirs in zip(taken.state_dict().items(), by_hand.state_dict().values(), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_a_look_may_end_the_training(images: Images) -> None:
    model = supervised(images)
    optimizer = make_optimizer(torch.optim.Adam, param_groups(model.model, model.loss_fn, 0.01))
    plan = make_plan(100, epochs=4, batch=20, seed=0)
    step = Step(model, optimizer, plan, loss_on(images.select(np.arange(100)), model))
    seen = []
    assert take_steps(step, lambda progress: seen.append(progress) or progress.step == 6, every=3) == 6
    assert [(p.step, p.max_steps) for p in seen] == [(3, 20), (6, 20)]
    assert seen[1].loss < seen[0].loss
    assert take_steps(step, until=11) == 11  # and go on later
    assert take_steps(step) == 20


class OnDevice:
    """What `take_steps` asks of a step; it counts how often it was run and how often it was only captured."""

    def __init__(self, steps: int) -> None:
        self.place, self.model = SimpleNamespace(type="cuda"), nn.Identity()
        self.plan, self.value = SimpleNamespace(factor=torch.ones(steps)), torch.zeros(())
        self.ran = self.captured = self.taken = 0
        self.graph = None
        self.capturing = False

    def __call__(self) -> None:
        if self.capturing:
            self.captured += 1
        else:
            self.ran += 1

    def replay(self) -> None:
        self.ran += 1


@pytest.mark.parametrize("works", [True, False])
def test_a_graph_is_captured_after_the_first_steps_and_replayed_for_the_rest(works: bool, monkeypatch, capsys) -> None:
    step = OnDevice(steps=12)

    @contextmanager
    def graph(made, stream):
        step.capturing = True
        yield
        step.capturing = False
        if not works:
            raise RuntimeError("operation not permitted when stream is capturing")

    stream = SimpleNamespace(wait_stream=lambda _: None)
    fakes = {"Stream": lambda: stream, "current_stream": lambda: stream, "stream": lambda _: nullcontext()}
    fakes |= {"CUDAGraph": lambda: step, "graph": graph, "synchronize": lambda: None}
    for name, fake in fakes.items():
        monkeypatch.setattr(_graphed.torch.cuda, name, fake)
    assert take_steps(step, until=2) == 2
    assert (step.ran, step.captured) == (2, 0), "too few for a graph"
    seen = []
    assert take_steps(step, lambda progress: seen.append(progress.step), every=4) == 12
    assert (step.ran, step.captured) == (12, 1)
    assert seen == [8, 12]
    assert ("launched from the host" in capsys.readouterr().out) == (not works)


@pytest.mark.parametrize(
    ("make", "constant"), [(lambda: Global(init=2.0), 2.0), (lambda: Data(9, init=3.0, fallback="mean"), 3.0)]
)
def test_answers_divide_by_the_temperature(make, constant: float, images: Images) -> None:
    said = say(supervised(images, make()), images.pixels[:7])
    np.testing.assert_allclose(said.temperature, constant, rtol=1e-5)
    np.testing.assert_allclose(said.tempered, said.logits / constant, rtol=1e-5)


def test_answers_are_of_a_network_in_evaluation_whatever_stands_beside_a_picture(images: Images) -> None:
    model = supervised(images, predicted_temperature(16))
    all_of_them, one = say(model.train(), images.pixels[:7]), say(model.train(), images.pixels[3:4])
    for many, alone in zip(all_of_them, one, strict=True):
        assert many.dtype == torch.float32
        np.testing.assert_allclose(many[3], alone[0], rtol=1e-4, atol=1e-5)
    assert all_of_them.temperature.std() > 0


def test_held_out_rows_share_no_photograph_with_the_others() -> None:
    photo = np.sort(np.random.default_rng(0).integers(0, 60, 300))
    some = Images("some", np.zeros((300, 8, 8, 3), np.uint8), np.zeros(300, int), {"photo": photo})
    back = held_out(some, 100, seed=0)
    assert set(photo[back]).isdisjoint(photo[~back])
    assert 85 < back.sum() <= 100
    assert (held_out(some, 100, 1) != back).any()


def test_leading_directions_in_bytes_leave_feature_temperatures_as_they_were() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(3000, 10)) * np.linspace(2, 0.5, 10)
    features = (hidden @ rng.normal(size=(10, 120)) + rng.normal(0, 0.1, (3000, 120))).astype(np.float32)
    labels = rng.integers(0, 4, 3000)
    logits = 3 * np.eye(4)[labels] + np.exp(hidden[:, :1] / 3) * rng.normal(size=(3000, 4))
    fewer = leading(features, 32)
    assert fewer.dtype == np.int8
    assert fewer.shape == (3000, 32)
    known = FeatureTemperature().fit(logits[:1500], labels[:1500], features[:1500])
    found = FeatureTemperature().fit(logits[:1500], labels[:1500], fewer[:1500].astype(np.float32))
    theirs = known.temperature(logits[1500:], features[1500:])
    ours = found.temperature(logits[1500:], fewer[1500:].astype(np.float32))
    assert theirs.std() > 0.3
    assert np.abs(ours / theirs - 1).mean() < 0.05


def test_outputs_are_of_rows_that_were_not_trained_on(images: Images) -> None:
    train, fresh = images.select(np.arange(1000)), images.select(np.arange(1200, 1500))
    found = outputs(train, fresh, SMALL["short"](), Recipe(epochs=4, batch=50, rate=1e-2, held_out=200), seed=0)
    np.testing.assert_array_equal(found["val_labels"], train.labels[held_out(train, 200, 0)])
    np.testing.assert_array_equal(found["test_labels"], fresh.labels)
    assert (found["test_logits"].argmax(1) == fresh.labels).mean() > 0.8
    assert (found["val_logits"].argmax(1) == found["val_labels"]).mean() > 0.8
    assert found["training"][0] == 800
    assert found["epochs"] == 4
    assert found["test_features"].shape == (300, 16)


def test_networks_are_kept_one_by_one_and_read_as_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_stored, "OUTPUTS", tmp_path)
    monkeypatch.setenv("LIKELY_DATA", str(tmp_path))
    monkeypatch.setattr(vision_classifiers, "load_images", lambda name, part, data: images)
    monkeypatch.setattr(vision_classifiers, "BODIES", dict.fromkeys(vision_classifiers.BODIES, SMALL["short"]))
    monkeypatch.setattr(vision_classifiers, "DESCRIBED", 90)
    monkeypatch.setattr(vision_classifiers, "Recipe", lambda: Recipe(batch=100, held_out=120))
    assert networks() == {}
    for name in ("svhn_resnet50", "cifar10_densenet121"):
        vision_classifiers.main(["--only", name, "--rows", "500", "--epochs", "1"])
    found = networks()
    assert sorted(found) == ["cifar10_densenet121", "svhn_resnet50"]
    one = found["svhn_resnet50"]
    assert one.logits.shape == (120 + 500, 10)
    assert one.calibration.sum() == 120
    assert one.described.features.shape == (180, 16)
    assert one.described.calibration.sum() == 90
    assert capsys.readouterr().out.count("right about") == 2
    assert _stored.stored(NAME).made.startswith(f"Redrawn from stored outputs: `python -m experiments.paper.{NAME}`")
    assert set(found) < set(NETWORKS)


def test_a_network_that_takes_too_long_ends_early() -> None:
    stop, go_on = vision_classifiers.watch("it", limit=-1.0), vision_classifiers.watch("it")
    progress = SimpleNamespace(step=1, max_steps=9, loss=0.5)
    assert stop(progress)
    assert not go_on(progress)
