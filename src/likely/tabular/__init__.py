"""Regressors and classifiers for tables, in scikit-learn's interface, that predict a distribution for every row."""

from likely._solvers.training import Progress
from likely.tabular._classifier import LikelihoodClassifier
from likely.tabular._importance import Importances
from likely.tabular._network_classifier import NetworkClassifier
from likely.tabular._network_regressor import NetworkRegressor
from likely.tabular._regressor import LikelihoodRegressor

__all__ = [
    "Importances",
    "LikelihoodClassifier",
    "LikelihoodRegressor",
    "NetworkClassifier",
    "NetworkRegressor",
    "Progress",
]
