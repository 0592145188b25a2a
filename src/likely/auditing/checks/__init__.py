"""What people ask first of a table: one file per question, each answered by one finding."""
