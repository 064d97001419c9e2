"""A finished computation: `XlaComputation`, what a builder builds, clients compile and other builders call.

Owns: the handle on a module seen as one function. Must not know: how it was built, how it is run.
"""

from __future__ import annotations

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.module import Module


class XlaComputation:
    """A module whose entry is the computation; functions that take a computation (reduce, while ...) copy it in.

    `XlaComputation(module)` makes one of any module, say of parsed HLO text. Raises InvalidArgumentError if the module
    has no entry.
    """

    __slots__ = ("module",)

    def __init__(self, module: Module) -> None:
        if module.entry is None or module.entry.root is None:
            raise InvalidArgumentError(f"module {module.name} has no entry computation, so it is no computation")
        self.module: Module = module

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def program_shape(self) -> ProgramShape:
        """Parameter shapes and names, and the result shape."""
        return self.module.entry_computation.program_shape

    def as_serialized_hlo_module_proto(self) -> bytes:
        """The module as a serialized HloModuleProto, which XLA reads; see `xlapy.proto`."""
        return self.module.to_proto()

    def as_hlo_text(self, **options: bool) -> str:
        """The module as HLO text; options as in `xlapy.text.PrintOptions`.

        As XLA does, constants of more than ten elements are shortened to `{...}`; `print_large_constants=True` gives
        text that can be run.
        """
        return self.module.to_text(**options)

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name}: {self.program_shape}>"
