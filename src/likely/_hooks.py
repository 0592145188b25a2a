"""Whether anybody waits for a module to be called."""

from torch import nn
from torch.nn.modules import module as torch_module


def has_hooks(*modules: nn.Module) -> bool:
    """Whether a call of one of these modules runs a forward hook, so that it must not be gone round.

    >>> layer = nn.Linear(2, 1)
    >>> before = has_hooks(layer)
    >>> handle = layer.register_forward_hook(print)
    >>> before, has_hooks(layer)
    (False, True)
    """
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return True
    return any(module._forward_hooks or module._forward_pre_hooks for module in modules)
