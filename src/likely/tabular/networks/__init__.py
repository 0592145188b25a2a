"""Networks by themselves: estimators whose loss is a likelihood with parameters that learn."""
