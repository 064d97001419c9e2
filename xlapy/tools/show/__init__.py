"""`xlapy show`: a module as a tree in the terminal, or as a page to walk about in."""

from xlapy.tools.show.command import show

__all__ = ["show"]
