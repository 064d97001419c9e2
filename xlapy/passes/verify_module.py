"""The pass that verifies a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy.hlo.module import Module
from xlapy.hlo.verification.layouts import verify_layouts
from xlapy.hlo.verify import verify


@dataclass(frozen=True)
class VerifyModule:
    """Checks that the module is valid; changes nothing.

    layouts: also check that only copies and bitcasts change layouts, as after `assign-layouts`.
    """

    name: ClassVar[str] = "verify-module"
    layouts: bool = False

    def run(self, module: Module) -> bool:
        """Returns False. Raises `VerificationError` for the first violated rule."""
        verify(module)
        if self.layouts:
            verify_layouts(module)
        return False
