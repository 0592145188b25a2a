"""Linear models that learn their regularisation, and linear models that are robust to outliers."""

from likely.linear._lasso import DynamicLasso, MultiLasso
from likely.linear._logistic import DynamicLogisticRegression
from likely.linear._regression import DynamicRegression
from likely.linear._ridge import DynamicRidge, MultiRidge
from likely.linear._robust.logistic import RobustLogisticRegression
from likely.linear._robust.pca import RobustPCA
from likely.linear._robust.regression import RobustLinearRegression
from likely.linear._spike_slab import SpikeSlabRegression

__all__ = [
    "DynamicLasso",
    "DynamicLogisticRegression",
    "DynamicRegression",
    "DynamicRidge",
    "MultiLasso",
    "MultiRidge",
    "RobustLinearRegression",
    "RobustLogisticRegression",
    "RobustPCA",
    "SpikeSlabRegression",
]
