"""What files say of both kinds of calibrators: lines, networks, compositions and automatic choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.base import clone

from likely._solvers.evidence import Solution
from likely.calibration._deep_network import Networks
from likely.calibration._json._fields import Record, bare

Nested = Callable[[Any], dict[str, Any]]  # of a calibrator inside another one
Again = Callable[[Record], Any]


def line(fitted: Solution) -> dict[str, Any]:
    """A parameter linear in standardised columns."""
    return {
        "mean": fitted.mean.tolist(),
        "deviation": fitted.deviation.tolist(),
        "coef": fitted.coef.tolist(),
        "intercept": float(fitted.intercept),
        "precision": bare(fitted.precision),
        "n_iter": int(fitted.n_iter),
    }


def solution(record: Record, columns: int | None) -> Solution:
    """The same again."""
    coef = record.array("coef", columns)
    return Solution(
        record.array("mean", len(coef)),
        record.array("deviation", len(coef), positive=True),
        coef,
        record.number("intercept"),
        record.limit("precision"),
        record.whole("n_iter"),
    )


def networks(calibrator: Any) -> dict[str, Any]:
    """Five networks and what standardises their input; null where held-out rows spoke for none of them."""
    told = {
        "mean": calibrator.mean_.tolist(),
        "deviation": calibrator.deviation_.tolist(),
        "n_iter": int(calibrator.n_iter_),
        "gain": bare(calibrator.gain_),
    }
    if calibrator.n_iter_ == 0:
        return {**told, "networks": None}
    first, shift, last, bias = (layer.double().cpu() for layer in calibrator.networks_.layers)
    layers = {
        "range": [float(end) for end in calibrator.networks_.range],
        "first": first.tolist(),
        "shift": shift[:, 0].tolist(),
        "last": last[..., 0].tolist(),
        "bias": bias[:, 0, 0].tolist(),
    }
    return {**told, "networks": layers}


def read_networks(calibrator: Any, record: Record, columns: int) -> None:
    """The same again."""
    calibrator.mean_ = record.array("mean", columns)
    calibrator.deviation_ = record.array("deviation", columns, positive=True)
    calibrator.n_iter_, calibrator.gain_ = record.whole("n_iter"), record.limit("gain")
    layers, ends = [], (0.0, 0.0)
    if calibrator.n_iter_:
        told = record.record("networks")
        low, high = told.array("range", 2)
        told.interval(low, high, "'range'")
        first = told.array("first", None, columns, None)
        n, _, hidden = first.shape
        shift, last, bias = told.array("shift", n, hidden), told.array("last", n, hidden), told.array("bias", n)
        shaped = (first, shift[:, None], last[..., None], bias[:, None, None])
        layers, ends = [torch.as_tensor(layer).float() for layer in shaped], (float(low), float(high))
    calibrator.networks_ = Networks(layers, ends, calibrator.n_iter_, calibrator.gain_)


def steps(calibrator: Any, nested: Nested) -> dict[str, Any]:
    """The steps of a composition."""
    pairs = zip(calibrator.steps, calibrator.fitted_, strict=True)
    return {"steps": [{"name": name, **nested(fitted)} for (name, _), fitted in pairs]}


def read_steps(calibrator: Any, record: Record, again: Again) -> None:
    """The same again."""
    records = record.records("steps")
    calibrator.fitted_ = [again(step) for step in records]
    names = [step.text("name") for step in records]
    calibrator.steps = [(name, clone(fitted)) for name, fitted in zip(names, calibrator.fitted_, strict=True)]


def comparison(calibrator: Any) -> dict[str, Any]:
    """What an automatic choice was made by."""
    return {
        "best": calibrator.name_,
        "scores": {name: bare(score) for name, score in calibrator.scores_.items()},
        "behind": {name: bare(errors) for name, errors in calibrator.behind_.items()},
    }


def read_comparison(calibrator: Any, record: Record) -> None:
    """The same again."""
    calibrator.name_ = record.text("best")
    for field in ("scores", "behind"):
        told = record.record(field)
        setattr(calibrator, f"{field}_", {name: told.limit(name) for name in told.content})
