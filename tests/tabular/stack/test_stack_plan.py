"""Which members a stack tries, what they are compared with, and what is told of them: by members of given losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from likely.tabular._stack import Plan, Stack, fit_stack
from likely.tabular.members.task import MemberTable, NoHelp, OutOfTime, StackMember, Task
from pairwise import together

Losses = dict[str, float]


def a_task(link: str = "identity", rows: int = 2000, spread: float = 10.0) -> Task:
    """Targets ±spread, or two classes in turn."""
    side = np.where(np.arange(rows) % 2, 1.0, -1.0)
    target = np.stack([side > 0, side < 0], 1) * 1.0 if link == "softmax" else spread * side[:, None]
    table = MemberTable(np.zeros((rows, 1)), [torch.zeros(rows, 1)] * 2, (), np.arange(0), None, np.arange(rows))
    return Task(table, target, np.ones(rows), np.arange(rows) % 2, link)


def with_loss(task: Task, loss: float) -> np.ndarray:
    """Predictions whose mean loss is this."""
    if task.link != "softmax":
        return task.target + np.sqrt(loss)
    return np.log(np.where(task.target > 0, np.exp(-loss), -np.expm1(-loss)))


def given(losses: Losses, seen: dict[str, np.ndarray | None] | None = None) -> dict[str, Callable[[Task], StackMember]]:
    """Members with these losses that write down which predictions they were to improve on."""

    def fit(name: str, task: Task) -> StackMember:
        if seen is not None:
            seen[name] = task.best
        return StackMember((), with_loss(task, losses[name]))

    return {name: lambda task, name=name: fit(name, task) for name in losses}  # type: ignore[misc]


def stacked(task: Task, losses: Losses, scouted: Losses | None = None, *, chosen: bool = False) -> Stack:
    known = {name: with_loss(task, loss) for name, loss in (scouted or {}).items()}
    return fit_stack(task, Plan(given(losses), chosen, lambda _: None, known))


def tries_network(task: Task, losses: Losses, scouted: Losses | None = None) -> bool:
    return "network" in stacked(task, {**losses, "network": 1.0}, scouted).members


@together(
    ("kernel", "boosting", "tried"),
    [(1.0, 1.6, False), (1.0, 1.7, True), (4.0, 6.5, False), (4.0, 6.8, True), (0.3, 0.48, False), (0.3, 0.52, True)],
)
def test_a_network_is_tried_where_kernels_beat_boosting_by_two_fifths(
    kernel: float, boosting: float, tried: bool
) -> None:
    task = a_task()
    assert tries_network(task, {"boosting": boosting, "kernel": kernel}) is tried
    assert tries_network(task, {"kernel": kernel}, {"boosting": boosting}) is tried  # a quick version says as much
    both = tries_network(task, {"kernel": kernel, "boosting": boosting}, {"boosting": 1e-4})
    assert both is tried, "the version that was fitted counts, not the quick one"


@together(("kernel", "boosting", "tried"), [(0.23, 0.2, True), (0.25, 0.2, False), (0.6, 0.6, True), (0.6, 0.4, False)])
def test_for_classes_kernels_may_be_a_fifth_worse(kernel: float, boosting: float, tried: bool) -> None:
    assert tries_network(a_task("softmax"), {"boosting": boosting, "kernel": kernel}) is tried
    assert tries_network(a_task("softmax"), {"kernel": kernel})


def test_a_network_is_not_tried_on_few_rows_without_kernels_or_where_kernels_are_exact() -> None:
    losses = {"boosting": 9.0, "kernel": 1.0}
    assert tries_network(a_task(rows=2000), losses)
    assert not tries_network(a_task(rows=1998), losses)
    assert tries_network(a_task("softmax", rows=300), {"boosting": 0.9, "kernel": 0.1})
    assert not tries_network(a_task("softmax", rows=298), {"boosting": 0.9, "kernel": 0.1})
    assert not tries_network(a_task(), {"boosting": 1.0})
    assert not tries_network(a_task("softmax"), {"boosting": 0.1})
    # A thousandth of the variance, 100, is left: a network cannot improve on that.
    assert not tries_network(a_task(), {"boosting": 9.0, "kernel": 0.09})
    assert tries_network(a_task(), {"boosting": 9.0, "kernel": 0.11})
    assert tries_network(a_task(), {"kernel": 1.0}), "nothing is known of boosting"


def test_members_that_a_user_chose_are_all_fitted_and_compared_with_none() -> None:
    seen: dict[str, np.ndarray | None] = {}
    task = a_task(rows=100)
    losses = {"kernel": 1.0, "boosting": 2.0, "network": 3.0}
    stack = fit_stack(task, Plan(given(losses, seen), True, lambda _: None))
    assert list(stack.members) == list(losses)
    assert all(best is None for best in seen.values())
    assert stack.out_of_fold.shape == (3, 100, 1)


def test_a_member_is_compared_with_the_best_so_far_or_a_scouted_one_that_is_better() -> None:
    task = a_task()
    seen: dict[str, np.ndarray | None] = {}

    def compared(losses: Losses, scouted: Losses, name: str) -> float:
        known = {kind: with_loss(task, loss) for kind, loss in scouted.items()}
        fit_stack(task, Plan(given(losses, seen), False, lambda _: None, known))
        best = seen[name]
        assert best is not None
        return task.loss(best)

    assert compared({"linear": 4.0, "shallow": 3.0, "trees": 2.0}, {}, "trees") == pytest.approx(3.0)
    assert compared({"linear": 3.0, "shallow": 4.0, "trees": 2.0}, {}, "trees") == pytest.approx(3.0)
    # Boosting comes later, and its quick version is better than what there is; or is not.
    assert compared({"linear": 4.0, "shallow": 3.0, "boosting": 1.0}, {"boosting": 2.0}, "shallow") == pytest.approx(2)
    assert compared({"linear": 4.0, "shallow": 3.0, "boosting": 1.0}, {"boosting": 5.0}, "shallow") == pytest.approx(4)
    # It is not compared with its own quick version, nor are others with it once it is fitted.
    assert compared({"linear": 4.0, "boosting": 3.0}, {"boosting": 2.0}, "boosting") == pytest.approx(4)
    assert compared({"boosting": 4.0, "linear": 3.0}, {"boosting": 2.0}, "linear") == pytest.approx(4)
    # Of equal ones it is that which is fitted: the same loss by predictions on the other side.
    equal = {"boosting": 2 * task.target - with_loss(task, 4.0)}
    fit_stack(task, Plan(given({"linear": 4.0, "shallow": 3.0}, seen), False, lambda _: None, equal))
    np.testing.assert_array_equal(seen["shallow"], with_loss(task, 4.0))


def test_a_scouted_member_that_does_not_help_is_dropped_if_there_are_kernels() -> None:
    task = a_task()
    losses = {"linear": 5.0, "kernel": 1.0, "boosting": 1.0}
    stack = stacked(task, losses, {"boosting": 4.0})
    assert list(stack.members) == ["linear", "kernel"]
    assert stack.tried[-1]["outcome"].startswith("dropped: on the first fold")
    assert list(stacked(task, {"linear": 1.0, "boosting": 1.0}, {"boosting": 4.0}).members) == ["linear", "boosting"]


def test_what_was_tried_is_told_with_its_loss_and_its_time(monkeypatch) -> None:
    clock = iter(np.arange(100.0, 200.0, 2.5))
    monkeypatch.setattr("likely.tabular._stack.time.monotonic", lambda: next(clock))
    task = replace(a_task(rows=100), deadline=np.inf)
    said: list[str] = []

    def no_help(_: Task) -> StackMember:
        raise NoHelp

    def late(_: Task) -> StackMember:
        raise OutOfTime

    fits = {**given({"linear": 4.0, "kernel": 2.0}), "shallow": no_help, "trees": late}
    stack = fit_stack(task, Plan(fits, True, said.append))
    assert [record["member"] for record in stack.tried] == ["linear", "kernel", "shallow", "trees"]
    assert [record.get("loss") for record in stack.tried] == [pytest.approx(4.0), pytest.approx(2.0), None, None]
    assert said[0] == "linear: fitted, loss 4"
    assert said[2] == "shallow: dropped: on the first fold it did not help"
    assert said[3] == "trees: dropped: time_limit was reached"
    seconds = [record["seconds"] for record in stack.tried]
    assert seconds == [2.5, *[5.0] * 3]  # the clock is read once more where there is a time limit


def test_an_interrupt_keeps_what_is_fitted(monkeypatch) -> None:
    def interrupted(_: Task) -> StackMember:
        raise KeyboardInterrupt

    fits = {**given({"linear": 4.0}), "kernel": interrupted, **given({"trees": 1.0})}
    task = a_task(rows=100)
    clock = iter(np.arange(100.0, 200.0, 2.5))
    monkeypatch.setattr("likely.tabular._stack.time.monotonic", lambda: next(clock))
    with pytest.warns(UserWarning, match="goes on with linear"):
        stack = fit_stack(task, Plan(fits, False, lambda _: None))
    assert list(stack.members) == ["linear"]
    assert stack.tried[-1] == {"member": "kernel", "outcome": "interrupted", "seconds": 5.0}
    with pytest.raises(KeyboardInterrupt):
        fit_stack(task, Plan({"kernel": interrupted}, False, lambda _: None))


def test_boosting_comes_before_kernels_where_it_was_not_scouted() -> None:
    task = a_task(rows=100)
    losses = dict.fromkeys(("linear", "kernel", "boosting", "shallow", "trees", "network"), 1.0)
    order = [record["member"] for record in stacked(task, losses).tried]
    assert order == ["linear", "boosting", "shallow", "kernel", "trees", "network"]
    assert [record["member"] for record in stacked(task, losses, {"boosting": 0.9}).tried] == list(losses)
    some = {"kernel": 1.0, "boosting": 1.0}
    assert [record["member"] for record in stacked(task, some).tried] == list(some)
