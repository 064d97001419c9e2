"""Thunks by which devices and the host communicate: collectives, transfers, infeeds and outfeeds, and waiting."""
