"""Passes over calls, loops and conditionals."""
