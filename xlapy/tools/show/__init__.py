"""`xlapy show`: a module as a tree in the terminal, or as an interactive page."""

from xlapy.tools.show.command import show

__all__ = ["show"]
