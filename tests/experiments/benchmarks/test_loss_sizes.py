"""Losses by hand are the same as ours; the tables, the page and the command say what was measured."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch.nn import functional as F

from commands import benchmarks_command
from experiments.benchmarks import _loss_sizes, _losses_by_hand, losses
from experiments.benchmarks._loss_cases import CASES, HAND, HAND_AND_STEP, KINDS, batch_of, call, hand, ours
from experiments.benchmarks._loss_checks import CLOSE, assert_close, check_same
from experiments.benchmarks._loss_sizes import COLUMNS, COMPILED, EAGER, GRAPH, Grid, measure, places
from experiments.benchmarks._size_page import page, verdict
from experiments.benchmarks._size_tables import merged, ratios_of, size_tables
from experiments.benchmarks._turns import WALL, Clock, Turns, ratios
from experiments.benchmarks._vocabulary_rivals import linear_rivals, softmax_rivals

FEW = Turns(block=0.0, fewest=1, most=1, budget=0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", CASES)
@pytest.mark.parametrize("size", [10, 1000])
def test_by_hand_is_the_same_loss(loss: str, kind: str, size: int) -> None:
    check_same(CASES[loss], kind, size, "cpu")


@pytest.mark.parametrize("loss", CASES)
def test_by_hand_is_the_same_wherever_a_network_of_parameters_stands(loss: str) -> None:
    """Of weights that are not zero, with our constraints in place of those by hand."""
    case = CASES[loss]
    batch = batch_of(case, 300, "cpu")
    mine, theirs = ours(case, "Predicted", 1), hand(case, "Predicted", 1)
    heads = [getattr(mine, name) for name in case.starts]
    theirs.constraints = tuple(head.constraint for head in heads)
    with torch.no_grad():
        for i, head in enumerate(heads):
            head.net[0].weight.normal_(0, 0.1)
            theirs.linear.weight[i], theirs.linear.bias[i] = head.net[0].weight[0], head.net[0].bias[0]
    own = [leaf for head in heads for leaf in (head.net[0].weight, head.net[0].bias)]
    of = {"the prediction": batch.prediction, "the features": batch.features}
    values = [call(module, "Predicted", batch)() for module in (mine, theirs)]
    assert_close(values[0].detach(), values[1].detach(), "the loss")
    found = torch.autograd.grad(values[0], [*of.values(), *own])
    wanted = torch.autograd.grad(values[1], [*of.values(), theirs.linear.weight, theirs.linear.bias])
    tolerance = max((5 * rounded for rounded in case.rounded.values()), default=CLOSE)  # of many shapes, not of one
    for name, a, b in zip(of, found[:2], wanted[:2], strict=True):
        assert_close(a, b, name, tolerance)
    assert_close(torch.cat(found[2::2]), wanted[2], "the weight", tolerance)
    assert_close(torch.cat(found[3::2]), wanted[3], "the bias", tolerance)


@pytest.mark.parametrize(
    ("loss", "made"),
    [("Normal", _losses_by_hand.GaussianNLLByHand), ("ρ", _losses_by_hand.PublishedRobust)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_other_rivals_have_the_same_value(loss: str, made: type[_losses_by_hand.ByHand], kind: str) -> None:
    case, batch = CASES[loss], batch_of(CASES[loss], 100, "cpu")
    values = [call(hand(case, kind, batch.training_rows, way), kind, batch)().detach() for way in (None, made)]
    assert_close(values[0], values[1], "the loss", 1e-4)


def test_a_loss_that_differs_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_losses_by_hand.LaplaceByHand, "forward", lambda self, x, y: (x - y).abs().mean())
    with pytest.raises(AssertionError, match="the loss differs from that by hand"):
        measure(Grid(places("cpu", all_threads=False), (10,), (("Laplace", "Global"),), turns=FEW))


def test_the_grid_has_a_row_for_every_rival() -> None:
    cells = (("Normal", "Global"), ("Softmax", "Data"))
    found, missing = measure(Grid(places("cpu", all_threads=False), (1, 10), cells, turns=FEW))
    assert list(found.columns) == COLUMNS
    assert missing == []
    assert found[["loss", "parameter", "against", "elements"]].to_numpy().tolist() == [
        *[["Normal", "Global", rival, size] for size in (1, 10) for rival in (HAND, "mse_loss", "GaussianNLLLoss")],
        # A softmax has ten classes, so one element makes none.
        *[["Softmax", "Data", rival, 10] for rival in (HAND, "cross_entropy", HAND_AND_STEP)],
    ]
    assert (found[["ratio", "low", "high", "microseconds"]] > 0).all(axis=None)


@pytest.mark.gpu
@pytest.mark.parametrize("loss", CASES)
def test_every_loss_is_timed_on_a_device_its_host_and_as_a_graph(loss: str) -> None:
    ways, at = (EAGER, GRAPH), places("cuda", all_threads=True)
    found, missing = measure(Grid(at, (10, 10**4), tuple((loss, kind) for kind in KINDS), ways, FEW))
    assert missing == []
    hand_written = found[found["against"] == HAND]
    assert len(hand_written) == 2 * len(KINDS) * (len(at) + 1)  # a graph's time is the device's
    assert (found["ratio"] > 0).all()


def test_a_compiler_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler\nhere")

    monkeypatch.setattr(torch, "compile", fail)
    cells, ways = (("Laplace", "Global"),), (EAGER, COMPILED)
    found, missing = measure(Grid(places("cpu", all_threads=False), (10,), cells, ways, FEW))
    assert set(found["way"]) == {EAGER}
    assert missing == ["compiled, Laplace, Global, 10 elements: RuntimeError: no compiler"]


def test_memory_that_runs_out_is_told_and_other_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([torch.OutOfMemoryError("too large"), ZeroDivisionError("a mistake")])

    def fail(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(_loss_sizes, "ratios", fail)
    grid = Grid(places("cpu", all_threads=False), (10,), (("Laplace", "Global"),), turns=FEW)
    found, missing = measure(grid)
    assert len(found) == 0
    assert missing == ["eager, Laplace, Global, 10 elements: OutOfMemoryError: too large"]
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        measure(grid)


def test_sizes_that_memory_does_not_hold_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loss_sizes, "free_bytes", lambda device: 1e4)
    found, _ = measure(Grid(places("cpu", all_threads=False), (10, 1000), (("Laplace", "Global"),), turns=FEW))
    assert set(found["elements"]) == {10}


def test_ratios_are_of_the_same_round() -> None:
    turn = iter(range(1, 1000))
    drift = Clock(lambda work, calls: float(work()) * calls * next(turn), most=1)
    found = ratios(lambda: 3.0, {"twice as fast": lambda: 1.5}, drift, Turns(block=0.0, fewest=40, most=40))
    assert found["twice as fast"].median == pytest.approx(2, rel=0.05)
    low, high = found["twice as fast"].low, found["twice as fast"].high
    assert low <= 2 <= high


def test_blocks_are_long_enough_for_the_clock() -> None:
    called = []
    ratios(lambda: called.append(1), {"other": lambda: None}, WALL, Turns(block=1e-3, fewest=1, most=1))
    assert len(called) > 50


def table_of(ratio: float, **row: object) -> pd.DataFrame:
    key = {"where": "CPU, one thread", "way": EAGER, "loss": "Normal", "parameter": "Global", "against": HAND}
    values = {"elements": 100, "ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1, "microseconds": 7.0}
    return pd.DataFrame([key | values | row], columns=COLUMNS)


def test_tables_say_what_was_measured_and_are_read_back() -> None:
    rows = [
        table_of(1.5),
        table_of(0.5, elements=10**6, microseconds=1234.5),
        table_of(12.0, against="mse_loss"),
        table_of(2.0, parameter="Data"),
        table_of(3.0, where="a GPU, host", way="graph"),
    ]
    ratios = pd.concat(rows, ignore_index=True)
    first, own, *_ = tables = list(size_tables(ratios))
    assert list(first.frame.columns) == list(own.frame.columns) == ["10²", "10⁶"]
    assert first.frame.index.tolist() == [
        (HAND, "Normal", "Global"),
        (HAND, "Normal", "Data"),
        ("mse_loss", "Normal", "Global"),
    ]
    assert first.frame.iloc[0].tolist() == ["1.50 (1.40–1.60)", "0.50 (0.40–0.60)"]
    assert first.frame.iloc[2].tolist() == ["12.0 (11.9–12.1)", "–"]
    order = COLUMNS[:6]
    again, wanted = (frame.sort_values(order, ignore_index=True) for frame in (ratios_of(tables), ratios))
    pd.testing.assert_frame_equal(again, wanted, check_dtype=False)


def test_what_is_measured_again_replaces_what_was() -> None:
    before = pd.concat([table_of(1.5), table_of(2.5, loss="Laplace")])
    now = pd.concat([table_of(2.0, loss="ρ"), table_of(1.0)])
    both = merged(before, now)
    assert list(zip(both["loss"], both["ratio"], strict=True)) == [("Normal", 1.0), ("Laplace", 2.5), ("ρ", 2.0)]


def test_the_worst_ratio_is_judged() -> None:
    rows = [table_of(1.05), table_of(1.2, elements=10**4), table_of(9.0, against="mse_loss"), table_of(3.0, loss="ρ")]
    first, rho = losses.judge(pd.concat(rows))
    assert (first.value, first.bar, first.met) == (1.2, 1.1, False)
    assert first.case == "Normal, Global, elements 10000; 1 of 2 cases miss"
    assert (rho.value, rho.bar, rho.met) == (3.0, None, None)


def test_the_page_says_where_ours_is_slower(tmp_path: Path) -> None:
    rows = pd.concat([table_of(1.05), table_of(1.2, elements=10**4), table_of(9.0, against="mse_loss")])
    assert "Of 2 ratios to the loss by hand 1 are at most 1.1" in verdict(rows[rows["against"] == HAND], 1.1)
    assert "Normal Global 1.20 at 10⁴" in verdict(rows[rows["against"] == HAND], 1.1)
    assert page(tmp_path) == "No stored run has ratios by size yet.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["losses", "--sizes", "12,15"], "--sizes are numbers of elements below 10 or in tens"),
        (["losses", "--only", "Norma"], "--only has 'Norma': give Normal, Laplace"),
        (["losses", "--ways", "eager,jit"], "--ways has jit: give some of eager, compiled, graph"),
        (["losses", "--device", "tpu"], "--device is cpu or cuda, got 'tpu'"),
        (["numerics", "--full"], "--full is an option of losses alone"),
    ],
)
def test_an_option_that_is_not_understood_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = benchmarks_command(*words, "--out", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_command_times_a_part_and_keeps_the_rest(tmp_path: Path) -> None:
    words = ("--quick", "--device", "cpu", "--out", str(tmp_path), "--against", str(tmp_path))
    first = benchmarks_command("losses", "--only", "normal/global", "--sizes", "1e2", *words)
    assert first.exit_code == 0, first.output
    assert "by hand          Normal  Global" in first.stdout
    second = benchmarks_command("losses", "--only", "laplace/global", "--sizes", "1e3", "--keep", *words)
    stored = json.loads((tmp_path / "losses.json").read_text())
    ran = "python -m experiments.benchmarks losses --quick --seed 0"
    assert stored["command"] == f"{ran} --keep --sizes 1e3 --device cpu --only laplace/global"
    kept = f"{ran} --sizes 1e2 --device cpu --only normal/global"
    assert f"Kept from `{kept}`." in stored["result"]["notes"]
    assert second.exit_code in (0, 1)  # by the machine's speed
    shown = page(tmp_path)
    assert kept in shown
    assert "| loss | parameter | 10² | 10³ |" in shown
    assert "\n| Normal | Global | " in shown
    assert "\n| Laplace | Global | – | " in shown
    assert "\n| `mse_loss` | Normal | Global | " in shown
    assert {bar["name"] for bar in stored["result"]["bars"]} == {"CPU, one thread, eager: the time by hand"}


def test_figures_of_another_machine_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("losses", "--quick", "--only", "laplace/global", "--sizes", "10", "--out", str(tmp_path))
    benchmarks_command(*words)
    before = (tmp_path / "losses.json").read_text()
    monkeypatch.setattr(losses, "machine", lambda: {"cpu": "another", "cores": 1})
    done = benchmarks_command(*words, "--keep")
    assert done.exit_code == 2
    assert "was measured on another machine" in done.stderr
    assert (tmp_path / "losses.json").read_text() == before


def test_packages_that_are_not_there_are_no_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.benchmarks._vocabulary_rivals.import_module", _not_there)
    x = torch.randn(3, 4)
    assert linear_rivals(x, x, torch.arange(3)) == softmax_rivals(x, torch.arange(3)) == {}


def test_packages_that_are_there_are_called_as_they_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.benchmarks._vocabulary_rivals.import_module", _stand_in)
    states, weight, y = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True), torch.arange(3)
    wanted = F.cross_entropy(states @ weight.T, y)
    for loss in linear_rivals(states, weight, y).values():
        torch.testing.assert_close(loss(), wanted)
    (loss,) = softmax_rivals(states @ weight.T, y).values()
    torch.testing.assert_close(loss(), wanted.detach())
    assert loss().requires_grad


def _not_there(name: str) -> None:
    raise ImportError(name)


def _stand_in(name: str) -> object:
    class Package:
        @staticmethod
        def LigerCrossEntropyLoss() -> object:
            return F.cross_entropy

        @staticmethod
        def LigerFusedLinearCrossEntropyLoss() -> object:
            return lambda weight, states, target: F.cross_entropy(states @ weight.T, target)

        @staticmethod
        def linear_cross_entropy(states: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(states @ weight.T, target)

    return Package


def test_sizes_are_powers_of_ten_up_to_what_the_place_holds() -> None:
    plan = losses.Plan.read({"full": "", "device": "cpu"}, quick=False)
    assert plan.grid.sizes == tuple(10**power for power in range(8))
    assert plan.large
    default = losses.Plan.read({"device": "cpu"}, quick=False)
    assert default.grid.sizes == (100, 10**4, 10**6)
    assert len(default.grid.places) == 1
    assert len(default.grid.cells) == len(CASES) * len(KINDS)
    assert not losses.Plan.read({"only": "rho", "device": "cpu"}, quick=False).large
    assert math.isfinite(_loss_sizes.free_bytes("cpu"))
