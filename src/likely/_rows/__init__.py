"""Rows of a table: blocks that are read one by one, keys of their contents, units, folds and checks."""
