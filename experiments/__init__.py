"""Experiments with likely, run from a checkout and not installed: the paper redone, and benchmarks.

They may import anything of likely; likely imports nothing from here.
"""
