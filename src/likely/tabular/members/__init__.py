"""The members of a stack, one file per kind: one model per fold."""
