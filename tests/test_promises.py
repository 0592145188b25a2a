"""What everything public promises, whatever it is: on fresh rows, in any order, in any layout, with nothing to learn.

Every subject of promises.py meets every promise. One that does not apply (weights, where none are taken) is not asked;
one that is not kept is an expected failure, whose reason docs/promises.md gives.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import re
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone

import likely
from likely import calibration, linear, losses, outliers, parameters, tabular
from pairwise import together
from promises import (
    NOT_SUBJECTS,
    SUBJECTS,
    Components,
    Detector,
    Forecasts,
    Logits,
    Loss,
    Module,
    Regressor,
    Rows,
    Subject,
    take,
)
from quick_stacks import cut_short

FRESH = 2000


@pytest.fixture(scope="module", autouse=True)
def quick_stacks() -> Iterator[None]:
    """Few trees and centres for all of these tests: what is known of a subject is shared by them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        cut_short(monkeypatch)
        yield


def subjects(promise: str, *, without: tuple[type, ...] = (), weighted: bool = False) -> Any:
    """Every subject that the promise concerns; those that break it are expected to fail."""
    found = []
    for subject in SUBJECTS:
        if isinstance(subject.kind, without) or (weighted and not subject.kind.takes_weights(subject.make())):
            continue
        reason = subject.except_for.get(promise)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        found.append(pytest.param(subject, id=str(subject), marks=marks))
    return pytest.mark.parametrize("subject", found)


def fitted(subject: Subject, rows: Rows, weight: Any = None) -> Any:
    return subject.kind.fit(subject.make(), rows, weight)


@cache
def known(subject: Subject) -> tuple[Rows, Any, Rows, np.ndarray]:
    """Rows, what was fitted on them, fresh rows and the answer for these: shared by tests that change none of it."""
    rows, fresh = single(subject, subject.kind.draw(1)), single(subject, take(subject.kind.draw(2), slice(100)))
    model = fitted(subject, rows)
    return rows, model, fresh, subject.kind.ask(model, fresh)


def single(subject: Subject, rows: Rows, dtype: Any = np.float64) -> Rows:
    """Rows whose table single precision holds exactly."""
    table = subject.kind.table
    return {**rows, table: rows[table].astype(np.float32).astype(dtype)}


def agree(subject: Subject, one: np.ndarray, other: np.ndarray, tolerance: float | None = None) -> None:
    """Answers are the same up to the subject's tolerance, relative to how much answers vary."""
    spread = np.std(one, axis=0) + 1e-3 * np.abs(one).max(initial=0) + 1e-12
    off = np.abs(one - other) / spread
    assert off.max(initial=0) <= (tolerance or subject.tolerance), f"off by {off.max():.2g} of the spread of answers"


# Fresh rows


@subjects("fresh rows")
def test_fresh_rows_are_treated_like_training_rows(subject: Subject) -> None:
    """What is off on training rows is off by about as much on rows that nobody has seen."""
    kind = subject.kind
    fresh = kind.draw(2, FRESH if not isinstance(kind, Loss) else 240)
    if isinstance(kind, Detector) and not isinstance(kind, Components):
        model = subject.make().set_params(contamination=0.1)
        assert 0.05 <= kind.loss(kind.fit(model, kind.draw(1)), fresh).mean() <= 0.2
        return
    rows, model, _, _ = known(subject)
    seen, unseen = kind.loss(model, rows), kind.loss(model, fresh)
    error = np.hypot(seen.std() / np.sqrt(len(seen)), unseen.std() / np.sqrt(len(unseen)))
    assert unseen.mean() <= seen.mean() + 0.15 * abs(seen.mean()) + 3 * error


@subjects("intervals", without=(Detector, Loss, Module))
def test_intervals_hold_as_many_fresh_rows_as_they_say(subject: Subject) -> None:
    kind = subject.kind
    _, model, _, _ = known(subject)
    if not hasattr(model, "predict_interval"):
        return
    fresh = kind.draw(2, FRESH)
    lower, upper = kind.ask(model, fresh)[:, -2:].T
    assert 0.85 <= np.mean((lower <= fresh["y"]) & (fresh["y"] <= upper)) <= 0.96


# Order


@subjects("order of rows in the fit")
def test_the_order_of_rows_does_not_matter_to_a_fit(subject: Subject) -> None:
    rows, _, fresh, answer = known(subject)
    order = np.random.default_rng(0).permutation(len(next(iter(rows.values()))))
    agree(subject, answer, subject.kind.ask(fitted(subject, take(rows, order)), fresh))


@subjects("order of columns", without=(Loss,))
def test_the_order_of_columns_does_not_matter(subject: Subject) -> None:
    kind = subject.kind
    rows, _, fresh, answer = known(subject)
    order = np.random.default_rng(0).permutation(rows[kind.table].shape[1])[::-1]
    other = fitted(subject, kind.turned(rows, order))
    agree(subject, answer, kind.turned_back(kind.ask(other, kind.turned(fresh, order)), order))


@subjects("units of columns", without=(Loss, Logits, Forecasts))
def test_the_units_of_columns_do_not_matter(subject: Subject) -> None:
    kind = subject.kind
    if isinstance(kind, Components) or "Calibrated" in str(subject):
        return  # components are directions in the units that are given, and what is calibrated may depend on units
    rows, _, fresh, answer = known(subject)
    width = rows[kind.table].shape[1]
    unit = np.resize([3.0, 1e6, 0.7, 1e-6], width)
    one, other = ({**part, kind.table: part[kind.table] * unit} for part in (rows, fresh))
    agree(subject, answer, kind.ask(fitted(subject, one), other), 1e-4)


@subjects("a row alone")
def test_a_row_alone_gets_what_it_gets_among_others(subject: Subject) -> None:
    kind = subject.kind
    rows, model, _, _ = known(subject)
    among_others = kind.ask(model, rows)
    alone = np.concatenate([kind.ask(model, take(rows, slice(i, i + 1))) for i in range(40)])
    backwards = kind.ask(model, take(rows, slice(None, None, -1)))[::-1]
    blocks = np.concatenate([kind.ask(model, take(rows, slice(start, start + 97))) for start in range(0, 240, 97)])
    for answer in (alone, backwards, blocks):
        agree(subject, among_others[: len(answer)], answer, 1e-5 if subject.single else 1e-9)


# Layouts


def layouts(table: np.ndarray) -> Iterator[tuple[str, Any]]:
    wide = np.zeros((2 * len(table), 2 * table.shape[1]))
    wide[::2, ::2] = table
    yield "columns first", np.asfortranarray(table)
    yield "a view with strides", wide[::2, ::2]
    yield "backwards and read-only", _read_only(table[::-1])[::-1]


def _read_only(table: np.ndarray) -> np.ndarray:
    copied = table.copy()
    copied.setflags(write=False)
    return copied


@subjects("layouts", without=(Loss, Module))
def test_the_layout_in_memory_does_not_matter(subject: Subject) -> None:
    kind = subject.kind
    rows, _, fresh, answer = known(subject)
    for (name, table), (_, asked) in zip(layouts(rows[kind.table]), layouts(fresh[kind.table]), strict=True):
        other = kind.ask(fitted(subject, {**rows, kind.table: table}), {**fresh, kind.table: asked})
        try:
            agree(subject, answer, other)
        except AssertionError as problem:
            raise AssertionError(f"{name}: {problem}") from None


@subjects("frames", without=(Loss, Module))
def test_frames_give_what_arrays_give(subject: Subject) -> None:
    """Frames of pandas and of Polars in turn: both go through the same reader."""
    kind = subject.kind
    frame = (pd.DataFrame, pl.DataFrame)[SUBJECTS.index(subject) % 2]
    rows, _, fresh, answer = known(subject)
    names = [f"column {i}" for i in range(rows[kind.table].shape[1])]

    def framed(part: Rows) -> Rows:
        table = part[kind.table]
        own = pd.DataFrame(table, columns=names) if frame is pd.DataFrame else pl.DataFrame(table, schema=names)
        return {**part, kind.table: own}

    agree(subject, answer, kind.ask(fitted(subject, framed(rows)), framed(fresh)))


@subjects("single precision", without=(Loss, Module))
def test_single_precision_gives_about_what_double_gives(subject: Subject) -> None:
    rows, _, fresh, answer = known(subject)
    other = fitted(subject, single(subject, rows, np.float32))
    agree(subject, answer, subject.kind.ask(other, single(subject, fresh, np.float32)), 3e-3)


@subjects("strides of tensors", without=(Regressor, Detector, Forecasts))
def test_strided_tensors_give_what_plain_ones_give(subject: Subject) -> None:
    kind = subject.kind
    rows, model, _, _ = known(subject)
    answer = kind.ask(model, rows)
    plain = torch.as_tensor(rows[kind.table])
    for strided in (plain.T.contiguous().T, plain.repeat_interleave(2, 0)[::2], torch.stack([plain, plain], 2)[..., 0]):
        agree(subject, answer, np.asarray(kind.ask(model, {**rows, kind.table: strided})))


# Chance


@subjects("threads")
def test_the_same_seed_gives_the_same_result_in_threads(subject: Subject) -> None:
    """Of a loss, which has no seed, only that threads do not disturb each other."""
    kind = subject.kind
    rows, model, fresh, alone = known(subject)

    def once(_: int) -> np.ndarray:
        return kind.ask(copy.deepcopy(model) if isinstance(kind, Loss) else fitted(subject, rows), fresh)

    for answer in joblib.Parallel(2, backend="threading")(joblib.delayed(once)(i) for i in range(2)):
        np.testing.assert_array_equal(answer, alone)


@subjects("global generators", without=(Loss,))
def test_global_generators_are_neither_read_nor_moved(subject: Subject) -> None:
    kind = subject.kind
    rows, _, fresh, answer = known(subject)

    def state() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002

    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002 - what somebody else's code may do
    random.seed(3)
    model = subject.make()
    before = state()
    np.testing.assert_array_equal(kind.ask(kind.fit(model, rows), fresh), answer)
    assert state() == before


@subjects("saved", without=(Loss,))
def test_a_pickled_object_answers_alike(subject: Subject) -> None:
    _, model, fresh, answer = known(subject)
    np.testing.assert_array_equal(subject.kind.ask(pickle.loads(pickle.dumps(model)), fresh), answer)


# Weights


@subjects("weights as repeats", weighted=True)
def test_a_weight_of_two_is_a_row_twice(subject: Subject) -> None:
    kind = subject.kind
    rows, fresh = kind.draw(1), take(kind.draw(2), slice(100))
    times = np.random.default_rng(0).integers(0, 4, len(next(iter(rows.values()))))
    weighted = fitted(subject, rows, times.astype(float))
    repeated = fitted(subject, take(rows, np.repeat(np.arange(len(times)), times)))
    agree(subject, kind.ask(weighted, fresh), kind.ask(repeated, fresh), max(subject.tolerance, 1e-5))


def uneven(rows: Rows) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, len(next(iter(rows.values()))))


@cache
def loss_of_weighted(subject: Subject) -> float:
    """The mean loss of fresh rows after a fit with weights about one."""
    kind = subject.kind
    rows = kind.draw(1)
    return float(kind.loss(fitted(subject, rows, uneven(rows)), kind.draw(2)).mean())


@subjects("weights of any scale", weighted=True)
@together("large", [False, True], ids=["small", "large"])
def test_weights_of_any_scale_give_a_usable_fit(subject: Subject, large: bool) -> None:
    """A common factor changes, at most, how much evidence there is: never that something was learned.

    Every other subject gets a factor that is merely large, or small; the others one at the end of what floats hold.
    """
    kind = subject.kind
    size = 1000.0 if SUBJECTS.index(subject) % 2 else 1e300
    factor = size if large else 1 / size
    rows, plain = kind.draw(1), loss_of_weighted(subject)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*sample_weight", category=UserWarning)
        scaled = kind.loss(fitted(subject, rows, uneven(rows) * factor), kind.draw(2))
    assert np.isfinite(scaled).all()
    assert scaled.mean() <= plain + 0.05 * abs(plain) + 0.05


# Nothing to learn


@subjects("nothing to learn", without=(Loss,))
def test_with_nothing_to_learn_it_stays_calm(subject: Subject) -> None:
    kind = subject.kind
    seed = 5 + SUBJECTS.index(subject) % 3
    fresh = kind.noise(seed + 100, FRESH)
    off = kind.loss(fitted(subject, kind.noise(seed)), fresh)
    assert np.isfinite(off).all()
    allowed = kind.ignorant(fresh)
    assert off.mean() <= allowed + 0.06 * abs(allowed) + 3 * off.std() / np.sqrt(len(off))


@subjects("constant columns", without=(Loss, Module))
def test_constant_columns_add_nothing(subject: Subject) -> None:
    kind = subject.kind
    name = "features" if kind.table == "logits" else kind.table
    rows, one, fresh, _ = known(subject)

    def widened(part: Rows) -> Rows:
        return {**part, name: np.column_stack([part[name], np.full(len(part[name]), 7.0)])}

    other = fitted(subject, widened(rows))
    if isinstance(kind, Components):
        agree(subject, kind.ask(one, fresh), kind.ask(other, widened(fresh))[:, :-1])
    else:
        assert kind.loss(other, widened({**fresh})).mean() == pytest.approx(
            kind.loss(one, fresh).mean(), rel=0.1, abs=0.05
        )


@subjects("everything constant", without=(Loss, Module, Forecasts))
def test_a_table_of_constants_is_taken_calmly(subject: Subject) -> None:
    kind = subject.kind
    rows = kind.draw(1)
    rows[kind.table] = np.full_like(rows[kind.table], 2.0)
    if "features" in rows:
        rows["features"] = np.full_like(rows["features"], -1.0)
    model = fitted(subject, rows)
    fresh = kind.draw(2)
    for asked in (rows, {**fresh, kind.table: 3 * fresh[kind.table]}):
        assert np.isfinite(kind.ask(model, asked)).all()
    if kind.table == "logits":  # nothing is known of what logits mean, so no answer may be certain
        assert kind.ask(model, fresh).max() < 1


# Bad calls


def spoiled(subject: Subject, rows: Rows) -> Iterator[tuple[str, Rows, tuple[str, ...]]]:
    """Rows that must be refused, and the words of which one must be in the message."""
    kind = subject.kind
    table, target = kind.table, kind.target
    holed = rows[table].copy()
    holed[3, 0] = np.inf if subject.gaps else np.nan
    if not isinstance(kind, Detector | Loss) or isinstance(kind, Components):
        yield "a gap", {**rows, table: holed}, (table, "input")
    yield "three axes", {**rows, table: rows[table][None]}, (table, "shape", "dim", "target", "numbers of samples")
    if target:
        yield (
            "a target too few",
            {**rows, target: rows[target][:-1]},
            (target, "target", "label", "numbers of samples"),
        )
    if target and rows[target].dtype.kind == "f" and not isinstance(kind, Loss):
        missing = rows[target].copy()
        missing[0] = np.nan
        yield "a missing target", {**rows, target: missing}, (target,)


@subjects("a bad call", without=(Module,))
def test_a_refused_call_names_the_argument_and_changes_nothing(subject: Subject) -> None:
    kind = subject.kind
    rows, fit, _, _ = known(subject)
    model = copy.deepcopy(fit)
    before = kind.ask(model, rows)
    for name, bad, words in spoiled(subject, rows):
        with pytest.raises((ValueError, TypeError), match=f"(?i){'|'.join(words)}"):
            kind.call(model, bad) if isinstance(kind, Loss) else kind.fit(model, bad)
        np.testing.assert_array_equal(kind.ask(model, rows), before, err_msg=name)
    if not isinstance(kind, Loss):
        narrower = {**rows, kind.table: rows[kind.table][:, :-1]}
        with pytest.raises(ValueError, match=r"(?i)feature|column|class"):
            kind.ask(model, narrower)
        np.testing.assert_array_equal(kind.ask(model, rows), before)


@subjects("bad weights", weighted=True)
def test_refused_weights_are_named(subject: Subject) -> None:
    kind, rows = subject.kind, subject.kind.draw(1)
    n = len(next(iter(rows.values())))
    refused = {"negative": np.r_[-1.0, np.ones(n - 1)], "too few": np.ones(n - 1)}
    if not isinstance(kind, Loss):  # where a batch of weight zero costs nothing, as in torch
        refused |= {"missing": np.r_[np.nan, np.ones(n - 1)], "none at all": np.zeros(n)}

    def give(weight: np.ndarray) -> None:
        if isinstance(kind, Loss):
            kind.call(subject.make(), rows, sample_weight=torch.as_tensor(weight))
        else:
            fitted(subject, rows, weight)

    for weight in refused.values():
        with pytest.raises(ValueError, match=r"(?i)weight"):
            give(weight)


def test_a_batch_with_a_gap_leaves_a_loss_as_it_was() -> None:
    for subject in SUBJECTS:
        if not isinstance(subject.kind, Loss):
            continue
        rows, model, _, _ = known(subject)
        loss_fn = copy.deepcopy(model)
        before = {name: value.clone() for name, value in loss_fn.state_dict().items()}
        bad = {**rows, "features": np.full_like(rows["features"], np.nan)}
        bad["prediction"] = np.full_like(rows["prediction"], np.nan)
        with contextlib.suppress(ValueError):
            subject.kind.call(loss_fn, bad)
        after = loss_fn.state_dict()
        for name, value in before.items():
            assert torch.equal(after[name], value), f"{subject}: {name}"
        assert np.isfinite(subject.kind.ask(loss_fn, rows)).all(), str(subject)


# The list itself


def test_everything_public_is_a_subject() -> None:
    known = {subject.covers.__name__ for subject in SUBJECTS} | set(NOT_SUBJECTS)
    missing = []
    for module in (likely, linear, tabular, calibration, outliers, losses, parameters):
        for name in module.__all__:
            member = getattr(module, name)
            takes_rows = isinstance(member, type) and (hasattr(member, "fit") or issubclass(member, torch.nn.Module))
            if takes_rows and name not in known:
                missing.append(f"{module.__name__}.{name}")
    assert not missing, "add a line to SUBJECTS in tests/promises.py"


def test_every_promise_not_kept_has_its_reason_in_the_docs() -> None:
    page = Path(__file__).parents[1] / "docs" / "promises.md"
    text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    for subject in SUBJECTS:
        for promise, reason in subject.except_for.items():
            name = "Predicted" if isinstance(subject.kind, Loss) else subject.covers.__name__
            assert f"`{name}`" in text, f"{subject}: {promise}"
            assert reason in text, f"{subject}: {promise}"


def test_subjects_can_be_cloned() -> None:
    for subject in SUBJECTS:
        if not isinstance(subject.make(), torch.nn.Module):
            clone(subject.make())
