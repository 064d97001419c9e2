"""The pass that verifies a module between others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.hlo.verify_layouts import verify_layouts


@dataclass(frozen=True)
class VerifyModule:
    """Checks that the module is sound; changes nothing.

    layouts: also that nothing but copies and bitcasts changes how a value lies, as is so after `assign-layouts`.
    """

    name: ClassVar[str] = "verify-module"
    layouts: bool = False

    def run(self, module: Module) -> bool:
        """False; `VerificationError` names the first broken rule."""
        verify(module)
        if self.layouts:
            verify_layouts(module)
        return False
