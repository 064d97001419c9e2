"""Passes that assign, normalize and honor layouts."""
