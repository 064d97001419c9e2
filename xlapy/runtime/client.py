"""The door for users: `Client` compiles programs for a platform, `Executable` runs them.

Owns: what may be compiled, how results reach the user. Must not know: how a back end works.
"""

from __future__ import annotations

from typing import Any

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.builder import XlaComputation
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.runtime.arguments import check_arguments, wrap_result
from xlapy.runtime.backend import Observer, Program, load_backend
from xlapy.text import parse_hlo


class Executable:
    """A program ready to run: call it with one argument a parameter."""

    def __init__(self, module: Module, program: Program, platform: str) -> None:
        self.module = module
        self.platform = platform
        self._program = program

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def program_shape(self) -> ProgramShape:
        return self.module.entry_computation.program_shape

    def __call__(self, *arguments: Any, observer: Observer | None = None) -> Any:
        """Runs the program.

        Arguments are NumPy arrays, buffers, anything with `__array__` or DLPack, of exactly the parameter's dimensions
        and element type; Python numbers and lists, which take the parameter's element type; and tuples of these for
        tuple parameters. Returns a `Buffer`, or nested tuples of them. `InvalidArgumentError` names the parameter that
        does not fit. `observer` is called after each instruction.
        """
        values = check_arguments(self.program_shape, arguments)
        return wrap_result(self._program.execute(values, observer), values)

    def as_hlo_text(self) -> str:
        return self.module.to_text()

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.platform}: {self.program_shape.to_text()}>"


class Client:
    """A platform and its devices.

    >>> client = Client("interpreter")
    >>> axpy = client.compile(computation)
    >>> axpy(x, y)
    """

    def __init__(self, platform: str = "interpreter") -> None:
        self.platform = platform
        self._backend = load_backend(platform)

    def compile(self, program: XlaComputation | Module | str) -> Executable:
        """Verifies a program and makes it ready to run.

        `program` is what `XlaBuilder.build` returns, a `Module`, or HLO text. Raises `ParseError`,
        `VerificationError`, or `UnsupportedError` for operations that the platform cannot run.
        """
        module = _module(program)
        verify(module)
        return Executable(module, self._backend.compile(module), self.platform)

    def __repr__(self) -> str:
        return f"<Client {self.platform}>"


def _module(program: XlaComputation | Module | str) -> Module:
    if isinstance(program, XlaComputation):
        return program.module
    if isinstance(program, Module):
        return program
    if isinstance(program, str):
        return parse_hlo(program, verify=False)
    raise InvalidArgumentError(f"compile takes an XlaComputation, a Module or HLO text, given {type(program).__name__}")
