"""Weights of rows: their shape, rows of weight zero, and weighted means."""

from collections.abc import Mapping

import torch
from torch import Tensor

from likely._validation import check_real, check_weights, fits, may_look, reduce

Features = Tensor | Mapping[str, Tensor] | None  # for all parameters, or by name


def along(rows: Tensor, ndim: int) -> Tensor:
    """``rows`` with axes added at the end, so that they broadcast to values of so many axes."""
    return rows.reshape(rows.shape + (1,) * (ndim - rows.ndim))


def as_weight(name: str, weight: Tensor | None) -> Tensor | None:
    """A weight as a loss stores it: a buffer that does not learn."""
    if weight is None:
        return None
    check_real(name, weight)
    return weight.detach()


def row_weight(sample_weight: Tensor, shape: torch.Size, validate_args: bool | None) -> Tensor:
    """The weights with axes added, so that they broadcast to one per element of a loss of this shape."""
    check_real("sample_weight", sample_weight)
    factor = along(sample_weight, len(shape))
    if not fits(factor.shape, shape):
        raise ValueError(
            f"sample_weight has shape {tuple(sample_weight.shape)}, the loss {tuple(shape)}: give one weight per row"
        )
    check_weights("sample_weight", sample_weight, validate_args)
    return factor


def kept_rows(factor: Tensor) -> Tensor | None:
    """Where weights are positive; None if they are everywhere, as far as that may be seen."""
    kept = factor > 0
    return None if not kept.ndim or (may_look(kept, None) and bool(kept.all())) else kept


def harmless_features(features: Features, kept: Tensor) -> Features:
    """Features whose values are finite in rows of weight zero."""
    if isinstance(features, Mapping):
        return {name: harmless_features(values, kept) for name, values in features.items()}  # type: ignore[misc]
    if features is None or len(features) != len(kept):
        return features
    rows = kept.reshape(len(kept), -1).any(1)
    return torch.where(along(rows, features.ndim) | features.isfinite(), features, 0)


def weighted(nll: Tensor, counted: Tensor | None, factor: Tensor | None, reduction: str) -> Tensor:
    """Reduce NLLs that are zero where a label is ignored, and hold its class weight elsewhere."""
    weight = counted
    if factor is not None:
        factor = factor.to(nll.dtype)
        nll = nll * factor
        weight = factor if counted is None else factor * counted
    if weight is None or reduction != "mean":
        return reduce(nll, reduction)
    total = weight.expand_as(nll).to(nll.dtype).sum()
    return nll.sum() / torch.where(total != 0, total, 1.0)
