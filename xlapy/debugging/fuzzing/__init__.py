"""Fuzzing: random modules on two implementations, mutated texts on one; what differs or breaks is reduced and kept."""
