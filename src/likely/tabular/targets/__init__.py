"""The distribution of a target given the members' predictions: of real numbers, or of counts."""
