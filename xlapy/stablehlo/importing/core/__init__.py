"""Infrastructure that all import rules share."""
