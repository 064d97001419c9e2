"""Infrastructure that all export rules share."""
