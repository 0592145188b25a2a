"""What a table is: blocks of rows, their contents and units, folds, checks."""
