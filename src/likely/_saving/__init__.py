"""Fitted estimators as files of numbers and text: classes on a list, JSON and arrays, and nothing that runs code."""
