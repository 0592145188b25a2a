"""Adapters to other libraries, each of which needs that library; and ``.monitor``, which needs none.

``likely.integrations.lightning``, ``.transformers``, ``.torchmetrics``, ``.mapie`` and ``.export``
(torch.export and ONNX).
"""
