"""Linear models that learn their regularisation, and linear models that are robust to outliers."""

from likely.linear._logistic import DynamicLogisticRegression
from likely.linear._regression import DynamicRegression
from likely.linear._ridge import DynamicRidge, MultiRidge
from likely.linear._robust_logistic import RobustLogisticRegression
from likely.linear._robust_pca import RobustPCA
from likely.linear._robust_regression import RobustLinearRegression
from likely.linear._sparse import DynamicLasso, MultiLasso, SpikeSlabRegression

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
