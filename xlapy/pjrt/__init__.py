"""PJRT, the interface between frameworks and back ends: xlapy as a plugin of JAX, and XLA:CPU of jaxlib as a peer."""
