"""Solvers that estimators share: evidence, reweighting, sparse weights, training, selection."""
