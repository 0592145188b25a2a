"""Rows that do not fit the rest, and their words."""
