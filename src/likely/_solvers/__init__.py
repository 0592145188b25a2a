"""What estimators share: evidence, reweighting, sparse weights, training, selection."""
