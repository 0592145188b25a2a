"""What rows of a table are: blocks that are read one by one, what rows hold, folds, and checks."""
