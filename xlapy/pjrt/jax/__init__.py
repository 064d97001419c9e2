"""The JAX plugin: its entry point, lowering rules, callbacks and DLPack."""
