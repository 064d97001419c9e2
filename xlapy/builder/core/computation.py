"""A finished computation: `XlaComputation`, which builders build and call, and clients compile.

Responsible for the handle to a module seen as one function. Does not depend on how it was built or is run.
"""

from __future__ import annotations

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.structure import modules as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.module import Module


@checked_class
class XlaComputation:
    """A module, used through its entry computation. Functions that accept a computation (reduce, while ...) copy it.

    `XlaComputation(module)` wraps any module, for example parsed HLO text. Raises InvalidArgumentError if the module
    has no entry.

    >>> b = xla.XlaBuilder("twice")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x")
    >>> computation = b.build(x + x)
    >>> computation.program_shape.result.dimensions
    (3,)
    >>> print(computation.as_hlo_text(print_metadata=False).splitlines()[4])
      ROOT %add = f32[3]{0} add(%x, %x)
    """

    __slots__ = ("module",)

    def __init__(self, module: Module) -> None:
        if module.entry is None or module.entry.root is None:
            raise InvalidArgumentError(codes.ENTRY_COMPUTATION, f"module {module.name} has no entry computation")
        self.module: Module = module

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes and names of the parameters, and the shape of the result."""
        return self.module.entry_computation.program_shape

    def as_serialized_hlo_module_proto(self) -> bytes:
        """The module as a serialized HloModuleProto, which XLA reads; see `xlapy.proto`."""
        return self.module.to_proto()

    def as_hlo_text(self, **options: bool) -> str:
        """The module as HLO text; the options are those of `xlapy.text.PrintOptions`.

        As in XLA, constants of more than ten elements are printed as `{...}`; use `print_large_constants=True` for text
        that can be run.
        """
        return self.module.to_text(**options)

    def _repr_html_(self) -> str:
        """The module as notebooks show it."""
        return self.module._repr_html_()

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name}: {self.program_shape}>"
