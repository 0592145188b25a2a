"""What a file says of each calibrator of regressors, and the calibrator again from what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from likely.calibration._json import _parts as parts
from likely.calibration._json._fields import Record, bare
from likely.calibration._json._parts import Again, Nested
from likely.calibration.regressors._auto import AutoScale
from likely.calibration.regressors._compose import ScalePipeline
from likely.calibration.regressors._deep import DeepScale
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._linear import LinearScale, MetRanges


def write(calibrator: Any, nested: Nested) -> dict[str, Any]:
    """What was learned, in JSON's types."""
    match calibrator:
        case ScalePipeline():
            return parts.steps(calibrator, nested)
        case AutoScale():
            return {**parts.comparison(calibrator), "calibrator": nested(calibrator.calibrator_)}
    told = {"has_scale": bool(calibrator.has_scale_), "global_scale": float(calibrator.global_scale_)}
    match calibrator:
        case LinearScale():
            met = calibrator.met_
            ranges = {"low": met.low.tolist(), "high": met.high.tolist(), "range": [float(end) for end in met.range]}
            share = {"share": float(calibrator.share_)}
            return {**told, "features": features_of(calibrator), **parts.line(calibrator.solution_), **share, **ranges}
        case DeepScale():
            return {**told, "features": features_of(calibrator), **parts.networks(calibrator)}
        case IsotonicScale():
            tails = calibrator.tails_
            heavy = None if tails is None else {"df": float(tails[0]), "scale": float(tails[1])}
            return {
                **told,
                "tails": heavy,
                "firmness": bare(calibrator.firmness_),
                "levels": calibrator.levels_.tolist(),
            }
    return told


def read(calibrator: Any, record: Record, again: Again) -> None:
    """Give an unfitted calibrator what the record says was learned."""
    match calibrator:
        case ScalePipeline():
            parts.read_steps(calibrator, record, again)
            return
        case AutoScale():
            parts.read_comparison(calibrator, record)
            calibrator.calibrator_ = again(record.record("calibrator"))
            return
    calibrator.has_scale_ = record.truth("has_scale")
    calibrator.global_scale_ = record.number("global_scale", positive=True)
    match calibrator:
        case LinearScale():
            calibrator.n_features_ = record.whole("features")
            fitted = parts.solution(record, calibrator.n_features_ or 1 + calibrator.has_scale_)
            low, high = (torch.as_tensor(record.array(end, len(fitted.coef))) for end in ("low", "high"))
            lowest, highest = record.array("range", 2)
            record.interval(low.numpy(), high.numpy(), "'low' and 'high'")
            record.interval(lowest, highest, "'range'")
            calibrator.share_ = record.number("share")
            calibrator.solution_, calibrator.precision_, calibrator.n_iter_ = fitted, fitted.precision, fitted.n_iter
            calibrator.met_ = MetRanges(fitted, low, high, (float(lowest), float(highest)))
        case DeepScale():
            calibrator.n_features_ = record.whole("features")
            parts.read_networks(calibrator, record, calibrator.n_features_ or 1 + calibrator.has_scale_)
        case IsotonicScale():
            calibrator.levels_, calibrator.firmness_ = record.array("levels", None), record.limit("firmness")
            _check_levels(calibrator.levels_, record)
            calibrator.tails_ = None
            if record.value("tails") is not None:
                tails = record.record("tails")
                calibrator.tails_ = tails.number("df", positive=True), tails.number("scale", positive=True)


def features_of(calibrator: Any) -> int:
    """How many features per row it reads; 0 for none."""
    match calibrator:
        case ScalePipeline():
            return max(map(features_of, calibrator.fitted_))
        case AutoScale():
            return features_of(calibrator.calibrator_)
        case LinearScale() | DeepScale():
            return int(calibrator.n_features_)
    return 0


def reads_scale(calibrator: Any) -> bool:
    """Whether the regressor's own scale is read."""
    match calibrator:
        case ScalePipeline():
            return reads_scale(calibrator.fitted_[0])
        case AutoScale():
            return reads_scale(calibrator.calibrator_)
    return bool(calibrator.has_scale_)


def _check_levels(levels: Any, record: Record) -> None:
    if len(levels) < 2 or levels[0] != 0 or (np.diff(levels) < 0).any() or abs(levels[-1] - 1) > 1e-9:
        raise ValueError(f"{record.name}: 'levels' must rise from 0 to 1")
