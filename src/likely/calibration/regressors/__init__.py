"""Calibrators of regressors: scales and distributions, and regressors that carry one."""
