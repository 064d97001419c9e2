"""The machinery that all export rules share."""
