"""Attention: two dots and the row reductions between them, as one kernel that keeps the scores in the cache."""
