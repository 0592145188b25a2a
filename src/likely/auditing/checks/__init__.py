"""The checks, one a file; ``likely.auditing._checks`` lists them."""
