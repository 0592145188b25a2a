"""Regressors and classifiers for tables, in scikit-learn's interface, that predict a distribution for every row."""

from likely._solvers.training import Progress
from likely.tabular._classifier import LikelihoodClassifier
from likely.tabular._importance import Importances
from likely.tabular._regressor import LikelihoodRegressor
from likely.tabular.networks.classifier import NetworkClassifier
from likely.tabular.networks.regressor import NetworkRegressor

__all__ = [
    "Importances",
    "LikelihoodClassifier",
    "LikelihoodRegressor",
    "NetworkClassifier",
    "NetworkRegressor",
    "Progress",
]
