"""Thin adapters to other libraries, each of which must be there; and ``.monitor``, which needs none.

``likely.integrations.lightning``, ``.transformers``, ``.skorch``, ``.torchmetrics``, ``.mapie``, ``.pyod``,
``.export`` (torch.export and ONNX) and ``.tensorboard``.
"""
