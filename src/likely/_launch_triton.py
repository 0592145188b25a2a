"""How the kernels of likely._kernels and likely.row_store are launched on CUDA."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

_MOST_FORMS = 1000  # of a kernel's arguments that are kept
_DIRECT = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)  # whether a launch as below was tried


class Kernel:
    """A Triton kernel that is launched, from the second time on, as what it was compiled to for such arguments.

    Triton's own launch looks up what the types, values and alignment of all arguments ask for, which takes the host as
    long as an operation of torch.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(
        self, programs: int, warps: int, tensors: Sequence[Tensor | None], *numbers: float, **constants: Any
    ) -> None:
        """Launch it on the device of the first tensor; the arguments are in the kernel's order."""
        first: Any = tensors[0]
        place = first.get_device()
        if place >= 0 and place != torch.cuda.current_device():
            with torch.cuda.device(place):
                self(programs, warps, tensors, *numbers, **constants)
            return
        forms = [t if t is None else (t.dtype, t.data_ptr() % 16) for t in tensors]
        form = (place, warps, *numbers, *constants.values(), *forms)
        if known := self.compiled.get(form):
            known[(programs, 1, 1)](*tensors, *numbers, *constants.values())
            return
        if len(self.compiled) > _MOST_FORMS:
            self.compiled.clear()
        made = self.function[(programs,)](*tensors, *numbers, **constants, num_warps=warps)
        self.compiled[form] = made if _DIRECT else None
