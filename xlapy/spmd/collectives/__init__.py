"""Passes over the collectives of a partitioned program: fewer of them, and ones that send less; pairs of devices."""
