"""Targets and labels that are probably wrong."""
