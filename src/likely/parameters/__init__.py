r"""Parameters φ of a likelihood, such as a scale or a temperature: what they depend on, and how many there are.

========================  ==================================================================================
:class:`Fixed`            a constant that does not learn, as in the losses of ``torch.nn``
:class:`Global`           learned values shared by all rows: one, or one per target, channel or pixel
:class:`Data`             learned values per training row
:class:`Predicted`        values predicted from the input by a small network
========================  ==================================================================================

``shape`` is the shape of one example's φ and broadcasts to one example's prediction: ``()`` is a single value,
``(C, 1, 1)`` one per channel, ``(C, H, W)`` one per pixel. ``init`` and ``constraint`` may be left to the loss, which
starts scales from the first training batch and learns them in relative steps, so that the unit of the target does not
matter. The settings of the paper are in :mod:`likely.paper`.
"""

from likely.parameters._data import Data
from likely.parameters._fixed import Fixed
from likely.parameters._global import Global
from likely.parameters._parameter import Parameter
from likely.parameters._predicted import Predicted

__all__ = ["Data", "Fixed", "Global", "Parameter", "Predicted"]
