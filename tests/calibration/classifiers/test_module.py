"""CalibratedModule: features found by itself, the classifier untouched, and the state where the module goes."""

import copy
import io
import pickle
from types import SimpleNamespace

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from likely.calibration import CalibratedModule, FeatureTemperature, GlobalTemperature, LinearTemperature


class Network(nn.Module):
    """Its last linear layer to run is not the last one defined."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return 5 * self.head(self.body(x))


class TwoInputs(nn.Module):
    """Called with keywords, answers with an object."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def forward(self, first: Tensor, second: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.network(first + second))


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    return Network().eval()


@pytest.fixture
def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(700, 4, generator=generator), torch.randint(3, (700,), generator=generator)


def by_hand(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        features = network.body(x)
        return 5 * network.head(features), features


@pytest.mark.parametrize("calibrator", [GlobalTemperature(), LinearTemperature(), FeatureTemperature(penalty=1.0)])
def test_it_does_what_its_calibrator_does(network, rows, calibrator) -> None:
    x, y = rows
    logits, features = by_hand(network, x)
    module = CalibratedModule(network, calibrator).fit(x, y)
    assert module.layer == "head"
    alone = calibrator.fit(logits, y, features)
    torch.testing.assert_close(module(x), alone.transform(logits, features))
    torch.testing.assert_close(module.predict_proba(x), alone.predict_proba(logits, features))
    torch.testing.assert_close(module.temperature(x), alone.temperature(logits, features))


def test_a_loader_gives_what_tensors_give(network, rows) -> None:
    x, y = rows
    loader = DataLoader(TensorDataset(x, y), batch_size=64)
    first = CalibratedModule(network, FeatureTemperature(penalty=1.0)).fit(x, y)
    second = CalibratedModule(network, FeatureTemperature(penalty=1.0)).fit(loader)
    torch.testing.assert_close(first(x), second(x))


def test_the_classifier_is_untouched(rows) -> None:
    network = Network()
    network.body[3].eval()
    before = copy.deepcopy(network.state_dict())
    modes = [part.training for part in network.modules()]
    module = CalibratedModule(network, "global").fit(*rows)
    first = module.predict_proba(rows[0])
    assert torch.equal(first, module.predict_proba(rows[0]))  # dropout and batch norm are off
    assert [part.training for part in network.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(not part._forward_pre_hooks for part in network.modules())


def test_hooks_go_even_when_the_classifier_fails(network, rows) -> None:
    module = CalibratedModule(network, "global").fit(*rows)
    with pytest.raises(RuntimeError):
        module(torch.zeros(2, 5))
    assert all(not part._forward_pre_hooks for part in network.modules())


def test_the_state_goes_with_the_module(network, rows) -> None:
    x, y = rows
    module = CalibratedModule(network, FeatureTemperature(penalty=1.0)).fit(x, y)
    expected = module(x)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded, module.to("cpu").eval()):
        assert torch.equal(again(x), expected)
    assert set(module.state_dict()) == {f"model.{name}" for name in network.state_dict()}


def test_gradients_reach_the_input(network, rows) -> None:
    x, y = rows
    module = CalibratedModule(network, FeatureTemperature(penalty=1.0)).fit(x, y)
    leaf = x[:5].clone().requires_grad_()
    module(leaf).logsumexp(1).sum().backward()
    assert leaf.grad.abs().sum() > 0
    with torch.no_grad():
        assert not module(x).requires_grad
    with torch.inference_mode():
        assert module(x).shape == (700, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_logits_keep_their_type(network, rows, dtype) -> None:
    x, y = rows
    module = CalibratedModule(network.to(dtype), FeatureTemperature(penalty=1.0)).fit(x.to(dtype), y)
    assert module(x.to(dtype)).dtype == dtype


def test_models_with_several_inputs_and_an_object_for_an_answer(rows) -> None:
    x, y = rows
    module = CalibratedModule(TwoInputs().eval(), "linear")
    module.fit([({"first": x[:300], "second": x[:300]}, y[:300]), ((x[300:], x[300:]), y[300:])])
    assert module.layer == "network.head"
    torch.testing.assert_close(module(x, second=x), module(first=x, second=x))


def test_a_layer_can_be_named(network, rows) -> None:
    module = CalibratedModule(network, FeatureTemperature(), layer="body.1").fit(*rows)
    assert len(module.calibrator.solution_.coef) == 8
    with pytest.raises(ValueError, match="no layer 'haed'"):
        CalibratedModule(network, FeatureTemperature(), layer="haed")


def test_a_model_without_linear_layers_has_no_features(rows) -> None:
    convolution = nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 3, 1), nn.Flatten())
    assert CalibratedModule(convolution, "global").fit(*rows).layer is None
    with pytest.raises(ValueError, match="needs features"):
        CalibratedModule(convolution, FeatureTemperature()).fit(*rows)


def test_clear_errors(network, rows) -> None:
    x, y = rows
    with pytest.raises(NotFittedError, match="call fit"):
        CalibratedModule(network, "global")(x)
    with pytest.raises(ValueError, match="no rows"):
        CalibratedModule(network, "global").fit([])
    with pytest.raises(ValueError, match="the same number of rows"):
        CalibratedModule(network, "global").fit(x, y[:5])
    with pytest.raises(TypeError, match=r"shape \(rows, classes\)"):
        CalibratedModule(nn.Flatten(0), "global").fit(x, y)


@pytest.mark.gpu
def test_it_moves_to_the_gpu(network, rows) -> None:
    x, y = rows
    module = CalibratedModule(network, FeatureTemperature(penalty=1.0)).fit(x, y)
    expected = module(x)
    module.cuda()
    torch.testing.assert_close(module(x.cuda()).cpu(), expected, rtol=1e-4, atol=1e-4)
    module.fit(x, y)  # rows go to where the model is
    torch.testing.assert_close(module(x.cuda()).cpu(), expected, rtol=1e-3, atol=1e-3)
