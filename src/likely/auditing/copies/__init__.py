"""Rows that repeat another, exactly or almost."""
