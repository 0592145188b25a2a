"""What happened to a value: a factor, a sign, two columns swapped."""
