"""What an audit returns: findings, one list of them, what was accepted before, and the scores of all rows."""
