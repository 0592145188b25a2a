"""Solvers that several estimators share."""
