"""The inputs with which torch tests its own losses: constructors, shapes, weights, reductions and targets."""

import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

LOSSES = (
    *(nn.MSELoss, nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss),
    *(nn.CrossEntropyLoss, nn.NLLLoss, nn.BCEWithLogitsLoss, nn.BCELoss, nn.PoissonNLLLoss),
)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _database() -> Any:
    # torch's test helpers import a package of which nothing here is used.
    missing = types.ModuleType("expecttest")
    missing.TestCase = unittest.TestCase
    missing.assert_expected_inline = missing.ACCEPT = None
    sys.modules.setdefault("expecttest", missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_modules
    return common_modules


def cases(kind: type[nn.Module], dtype: torch.dtype) -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """Every case of torch for a loss that its CPU kernels take: a description, the loss and what it is called with."""
    database = _database()
    (info,) = [info for info in database.module_db if info.module_cls is kind]
    torch.manual_seed(0)
    made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=True)
    for case in made:
        loss = kind(*case.constructor_input.args, **case.constructor_input.kwargs)
        args = case.forward_input.args
        try:
            loss(*args)
        except (NotImplementedError, RuntimeError):  # no kernel of torch for this dtype
            continue
        yield case.desc, loss, args
