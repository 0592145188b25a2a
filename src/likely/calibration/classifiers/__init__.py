"""Calibrators of classifiers: maps from logits to logits, and classifiers that carry one."""
