"""The pass that verifies a module between others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify


@dataclass(frozen=True)
class VerifyModule:
    """Checks that the module is sound; changes nothing."""

    name: ClassVar[str] = "verify-module"

    def run(self, module: Module) -> bool:
        """False; `VerificationError` names the first broken rule."""
        verify(module)
        return False
