"""Likelihood models of tables: estimators as scikit-learn's over a linear model, an MLP or any ``nn.Module``."""

from likely._solvers.training import Progress
from likely.tabular._classifier import LikelihoodClassifier
from likely.tabular._regressor import LikelihoodRegressor

__all__ = ["LikelihoodClassifier", "LikelihoodRegressor", "Progress"]
