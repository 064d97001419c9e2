"""`XlaBuilder`: collects ops into a computation, one call at a time, and refuses an illegal one at once.

Owns: appending instructions with the user's line, importing called computations, undoing a failed call, `build`.
Must not know: what any op means or which operands it takes (`builder/<family>.py` and `ops/<family>.py` do).
Source: xla_builder.h of XLA; docs/operation_semantics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

from xlapy.base.errors import BuilderError, InvalidArgumentError, ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.builder.computation import XlaComputation
from xlapy.builder.op import XlaOp
from xlapy.builder.source import located, user_metadata
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.ops.attributes import Attributes
from xlapy.ops.registry import OpDef


class OperandError(BuilderError, ShapeError):
    """An op was given operands or attributes it does not take: a BuilderError that is a ShapeError too."""


class XlaBuilder:
    """A computation under construction. The functions of `xlapy.ops` append to it; `build` finishes it.

    >>> builder = XlaBuilder("axpy")
    >>> x = ops.parameter(builder, 0, Shape.parse("f32[3]"), "x")
    >>> computation = (x + x).builder.build()
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._module = Module(name)
        self._computation: Computation = edit.add_computation(self._module, name, entry=True)
        self._imported: dict[XlaComputation, Computation] = {}
        self._last: Instruction | None = None
        self._finished = False

    def __repr__(self) -> str:
        return f"<XlaBuilder {self.name}: {len(self._computation)} instructions>"

    # -- the public services

    @property
    def is_finished(self) -> bool:
        """Whether `build` has been called; a finished builder takes no more ops."""
        return self._finished

    def create_sub_builder(self, name: str) -> XlaBuilder:
        """A builder for a computation (a loop body, a reducer) that this builder's ops will call."""
        return XlaBuilder(name)

    def get_shape(self, op: XlaOp) -> Shape:
        """The shape of an op of this builder; `BuilderError` if it belongs to another."""
        self._check_owned("get_shape", op)
        return op.shape

    def get_program_shape(self, root: XlaOp | None = None) -> ProgramShape:
        """The signature so far: the parameters and the shape of `root` (default: the last op).

        Raises BuilderError if the builder is empty or the parameter numbers have gaps.
        """
        result = self._root("get_program_shape", root)
        self._check_parameters("get_program_shape")
        parameters = self._computation.parameters
        return ProgramShape([p.shape for p in parameters], result.shape, [p.name for p in parameters])

    def build(self, root: XlaOp | None = None) -> XlaComputation:
        """Finishes the computation with `root` (default: the last op) as its result.

        Raises BuilderError if the builder is empty or already finished, or the parameter numbers have gaps.
        """
        self._check_open("build")
        result = self._root("build", root)
        self._check_parameters("build")
        edit.set_root(self._computation, result)
        program = self._computation.program_shape
        self._module.config.entry_computation_layout = ProgramShape(program.parameters, program.result)
        self._finished = True
        return XlaComputation(self._module)

    # -- for the functions of builder/<family>.py

    def append(
        self,
        op: OpDef,
        operands: Sequence[XlaOp] = (),
        attributes: Attributes | None = None,
        computations: Sequence[XlaComputation] = (),
        *,
        shape: Shape | None = None,
        name: str | None = None,
    ) -> XlaOp:
        """Appends one instruction, with the user's line as its metadata.

        `attributes` default to the op's own defaults. Without `shape` the op infers it; a declared one is judged by the
        op's rule. Called computations are copied
        into the builder's module, each once. Raises BuilderError, as `OperandError` if the op refuses the operands.
        """
        self._check_open(op.name)
        for operand in operands:
            self._check_owned(op.name, operand)
        for computation in computations:
            _check_computation(op.name, computation)
        attributes = op.attributes.make() if attributes is None else attributes
        result = _judged(op, operands, attributes, computations, shape)
        inputs = [operand.instruction for operand in operands]
        called = [self._import(computation) for computation in computations]
        self._last = edit.create(
            self._computation, op, inputs, attributes, called, shape=result, name=name, metadata=user_metadata()
        )
        return XlaOp(self, self._last)

    def parameter_shape(self, number: int) -> Shape | None:
        """The shape of the parameter of a number; None while there is none."""
        parameters = self._computation.parameters
        place = bisect_left(parameters, number, key=lambda p: p.attributes.number)
        found = place < len(parameters) and parameters[place].attributes.number == number
        return parameters[place].shape if found else None

    def last_of(self, op: OpDef) -> XlaOp | None:
        """The latest use of an op in the computation; None if there is none yet."""
        found = next((i for i in reversed(self._computation.instructions) if i.op is op), None)
        return None if found is None else XlaOp(self, found)

    def building(self, name: str) -> Transaction:
        """`with builder.building("add"):` around a call of several steps: all of them happen, or none.

        A ShapeError or InvalidArgumentError raised inside leaves as a BuilderError at the user's line.
        """
        return Transaction(self, name)

    def _import(self, computation: XlaComputation) -> Computation:
        """The copy of a computation, with all it calls, in this builder's module."""
        found = self._imported.get(computation)
        if found is None:
            made: dict[Computation, Computation] = {}
            for original in computation_post_order(computation.module):
                made[original] = edit.clone_computation(original, self._module, made)
            found = self._imported[computation] = made[computation.module.entry_computation]
        return found

    def _check_open(self, name: str) -> None:
        if self._finished:
            fail(name, f"builder {self.name} is finished; no op can be added after build()")

    def _check_owned(self, name: str, operand: XlaOp) -> None:
        if not isinstance(operand, XlaOp):
            fail(name, f"takes XlaOps, given {type(operand).__name__} {operand!r}; ops.constant makes one of a value")
        if operand.builder is not self:
            fail(
                name,
                f"operand {operand.instruction.name} {operand.shape.brief} belongs to builder {operand.builder.name}, "
                f"not to {self.name}; pass it in as a parameter",
            )

    def _root(self, name: str, root: XlaOp | None) -> Instruction:
        if root is not None:
            self._check_owned(name, root)
            return root.instruction
        if self._last is None:
            fail(name, f"builder {self.name} has no ops, so it has no root")
        return self._last

    def _check_parameters(self, name: str) -> None:
        numbers = [p.attributes.number for p in self._computation.parameters]
        if numbers != list(range(len(numbers))):
            fail(name, f"parameters of builder {self.name} must be numbered 0 to {len(numbers) - 1}, found {numbers}")

    def _undo(self, length: int, last: Instruction | None) -> None:
        """Removes the instructions beyond the first `length`, and the computations that only they called."""
        for instruction in reversed(self._computation.instructions[length:]):
            edit.remove(instruction)
        for computation in reversed(self._module.computations):  # callers stand behind what they call
            if computation is not self._computation and not computation.callers:
                edit.remove_computation(computation)
        self._imported = {source: copy for source, copy in self._imported.items() if copy.module is not None}
        self._last = last


class Transaction:
    """A call of several steps; made by `XlaBuilder.building`."""

    __slots__ = ("builder", "last", "length", "name")

    def __init__(self, builder: XlaBuilder, name: str) -> None:
        self.builder = builder
        self.name = name

    def __enter__(self) -> None:
        self.length = len(self.builder._computation)
        self.last = self.builder._last

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        self.builder._undo(self.length, self.last)
        if isinstance(error, ShapeError | InvalidArgumentError) and not isinstance(error, BuilderError):
            raise as_builder_error(self.name, error) from None


def _check_computation(name: str, computation: XlaComputation) -> None:
    if not isinstance(computation, XlaComputation):
        fail(name, f"calls an XlaComputation, given {type(computation).__name__}; build() makes one")


def _judged(
    op: OpDef,
    operands: Sequence[XlaOp],
    attributes: Attributes,
    computations: Sequence[XlaComputation],
    declared: Shape | None,
) -> Shape:
    """The shape of a new instruction: inferred, or the declared one if the op's rule has no objection."""
    shapes = [operand.shape for operand in operands]
    programs = [computation.program_shape for computation in computations]
    try:
        if declared is None:
            return op.result_shape(shapes, attributes, programs)
        op.verify(declared, shapes, attributes, programs)
    except (ShapeError, InvalidArgumentError) as error:
        raise as_builder_error(op.name, error) from None
    return declared


def append(
    op: OpDef,
    operands: Sequence[XlaOp],
    attributes: Attributes | None = None,
    computations: Sequence[XlaComputation] = (),
    *,
    shape: Shape | None = None,
) -> XlaOp:
    """`XlaBuilder.append` of the builder that the operands, at least one, belong to."""
    return builder_of(op.name, operands).append(op, operands, attributes, computations, shape=shape)


def builder_of(name: str, operands: Sequence[object]) -> XlaBuilder:
    """The builder of the first XlaOp among operands that may be plain values too; `BuilderError` if there is none."""
    found = next((operand for operand in operands if isinstance(operand, XlaOp)), None)
    if found is None:
        given = ", ".join(type(operand).__name__ for operand in operands) or "nothing"
        fail(name, f"needs an XlaOp among its operands, given {given}")
    return found.builder


def fail(name: str, message: str) -> NoReturn:
    """Raises `BuilderError` reading `model.py:12: name: message`."""
    raise BuilderError(located(f"{name}: {message}"))


def as_builder_error(name: str, error: ShapeError | InvalidArgumentError) -> BuilderError:
    """The error at the user's line; the op's name goes in front unless the message starts with it."""
    message = str(error)
    if not message.startswith((f"{name}:", f"{name} ")):
        message = f"{name}: {message}"
    kind = OperandError if isinstance(error, ShapeError) else BuilderError
    return kind(located(message))
