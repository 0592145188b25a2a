"""Arithmetic that several likelihoods and estimators share: special functions, ρ and its partition function, draws."""
