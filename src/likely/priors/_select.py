"""Select the parameters of a model that get a prior."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

Which = Callable[[str, nn.Parameter], bool] | Iterable[str] | None


def select(model: nn.Module, which: Which) -> list[str]:
    """Names of the chosen parameters, a shared one once."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    named = dict(model.named_parameters())
    lazy = [name for name, parameter in named.items() if is_lazy(parameter)]
    if lazy:
        raise ValueError(f"{', '.join(lazy)} have no shape yet: run the model once before giving it a prior")
    if isinstance(which, str):
        raise TypeError(f"which must be a list of names, got the string {which!r}")
    if callable(which):
        chosen = [name for name, parameter in named.items() if which(name, parameter)]
    elif which is not None:
        every = dict(model.named_parameters(remove_duplicate=False))
        wanted = list(which)
        missing = [name for name in wanted if name not in every]
        if missing:
            raise ValueError(f"the model has no parameter {', '.join(missing)}; it has {', '.join(named)}")
        chosen = list({id(every[name]): name for name in reversed(wanted)}.values())[::-1]
    else:
        norms = {id(p) for m in model.modules() if "Norm" in type(m).__name__ for p in m.parameters(recurse=False)}
        chosen = [name for name, p in named.items() if p.ndim >= 2 and p.requires_grad and id(p) not in norms]
    if not chosen:
        raise ValueError(
            "no parameter is selected: by default those with two or more dimensions outside norms that require "
            "gradients are; select others by which="
        )
    whole = [name for name in chosen if not model.get_parameter(name).is_floating_point()]
    if whole:
        raise TypeError(f"{', '.join(whole)} must be floating point to have a prior")
    return chosen


def fan_in(weight: Tensor) -> int:
    """The number of inputs per output of a weight tensor; 1 for a bias."""
    return max(1, weight.numel() // weight.shape[0]) if weight.ndim > 1 else 1
