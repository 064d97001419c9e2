"""Conversions of floats that not every processor has, and the functions that take their place."""
