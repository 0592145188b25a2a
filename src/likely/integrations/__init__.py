"""Adapters to other libraries, each of which has to be installed; and ``.monitor``, which needs none.

``likely.integrations.lightning``, ``.transformers``, ``.torchmetrics``, ``.mapie`` and ``.export``
(torch.export and ONNX).
"""
