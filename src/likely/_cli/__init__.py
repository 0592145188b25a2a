"""The commands of `likely`, one file for the arguments of each, and what they share."""
