"""Convolutions as matrix multiplications."""
