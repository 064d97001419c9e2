"""Other implementations of XLA behind its PJRT interface; nothing of the house imports this package."""
