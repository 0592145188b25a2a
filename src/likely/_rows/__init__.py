"""What rows of a table are: blocks that are read one by one, what rows hold, their units, folds, and checks."""
