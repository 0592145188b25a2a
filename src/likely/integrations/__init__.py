"""Thin adapters to other libraries, each of which must be there: ``likely.integrations.pyod``, ``.lightning``,
``.transformers``, ``.skorch``, ``.torchmetrics``, ``.mapie``, ``.export`` (torch.export and ONNX) and ``.tensorboard``.
"""
