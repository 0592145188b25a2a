"""Thin adapters to other libraries, each of which must be there: ``likely.integrations.pyod``."""
