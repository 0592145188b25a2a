"""Columns that follow from others: functions of one column, sums and products of several."""
