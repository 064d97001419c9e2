"""Passes that assign and normalize layouts."""
