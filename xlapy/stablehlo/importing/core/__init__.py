"""The machinery that all import rules share."""
