"""Linear models that are robust to outliers: a learned scale or temperature per row."""
