"""What a value should be, given the others of its row."""
