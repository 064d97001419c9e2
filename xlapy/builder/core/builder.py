"""`XlaBuilder`: appends ops to a computation, one call at a time, and rejects an illegal op at once.

Responsible for appending instructions with their annotations, importing called computations, undoing a failed call, and
`build`. Does not depend on the meaning of any op or its operands (see `builder/<family>.py` and `opcodes/<family>.py`).
Source: xla_builder.h of XLA; docs/operation_semantics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import index
from types import TracebackType
from typing import Literal, NoReturn

from xlapy.base.arguments.checking import checked_class, eager_arguments
from xlapy.base.arguments.copying import not_copied
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.errors import BuilderError, InvalidArgumentError, ShapeError, VerificationError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.builder.core import constant_graph
from xlapy.builder.core.annotations import PLAIN, Annotated, Annotations, ShardingLike, as_sharding, checked_attributes
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.builder.core.source import located, user_metadata
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Alias, BufferDonor, Module
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.traverse import computation_post_order
from xlapy.hlo.verify import verify_aliases
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.registry import OpDef


class OperandError(BuilderError, ShapeError):
    """Raised for operands or attributes that an op does not accept. It is a BuilderError and a ShapeError."""


@not_copied("operations refer to it; build the computation and copy that")
@checked_class
class XlaBuilder(Annotated):
    """A computation under construction. The functions of `xlapy.ops` append to it; `build` finishes it.

    >>> b = xla.XlaBuilder("twice")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x")
    >>> b.build(x + x)
    <XlaComputation twice: (x: f32[3]) -> f32[3]>
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name: str = name
        self._module = Module(name)
        self._computation: Computation = edit.add_computation(self._module, name, entry=True)
        self._imported: dict[XlaComputation, Computation] = {}
        self._last: Instruction | None = None
        self._finished = False
        self._aliases: list[Alias] = []
        self._donors: set[BufferDonor] = set()

    def __repr__(self) -> str:
        return f"<XlaBuilder {self.name}: {len(self._computation)} instructions>"

    # -- public methods

    @property
    def is_finished(self) -> bool:
        """Whether `build` has been called. A finished builder accepts no more ops."""
        return self._finished

    def create_sub_builder(self, name: str) -> XlaBuilder:
        """Creates a builder for a computation (a loop body, a reducer) that ops of this builder will call."""
        return XlaBuilder(name)

    def get_shape(self, op: XlaOp) -> Shape:
        """The shape of an op of this builder. Raises `BuilderError` if the op belongs to another builder."""
        self._check_owned("get_shape", op)
        return op.shape

    def get_program_shape(self, root: XlaOp | None = None) -> ProgramShape:
        """The signature so far: the parameters, and the shape of `root` (default: the last op).

        Raises BuilderError if the builder is empty or the parameter numbers have gaps.
        """
        result = self._root("get_program_shape", root)
        self._check_parameters("get_program_shape")
        parameters = self._computation.parameters
        return ProgramShape([p.shape for p in parameters], result.shape, [p.name for p in parameters])

    def get_operand_shapes(self, operands: Iterable[XlaOp]) -> list[Shape]:
        """Returns `get_shape` of each operand."""
        return [self.get_shape(operand) for operand in operands]

    def get_op_sharding(self, op: XlaOp) -> Sharding | None:
        """The sharding of an op of this builder; None if it has none."""
        self._check_owned("get_op_sharding", op)
        return op.instruction.sharding

    @eager_arguments
    def set_instruction_sharding(self, op: XlaOp, sharding: ShardingLike | None) -> None:
        """Sets or, with None, removes the sharding of one op. Raises BuilderError if the sharding does not fit the op's
        shape.
        """
        self._check_changeable("set_instruction_sharding", op)
        new = None if sharding is None else as_sharding(sharding).for_shape(op.shape)
        if new is not None:
            with self.building("set_instruction_sharding"):
                new.check(op.shape)
        op.instruction.sharding = new

    @eager_arguments
    def set_instruction_frontend_attribute(self, op: XlaOp, attribute: str, value: str) -> None:
        """Sets one frontend attribute of one op. Its other frontend attributes stay."""
        self._check_changeable("set_instruction_frontend_attribute", op)
        given = op.instruction.frontend_attributes or {}
        checked_attributes({attribute: value})
        op.instruction.frontend_attributes = {**given, attribute: value}

    def is_constant(self, op: XlaOp) -> bool:
        """Whether the value of an op of this builder is the same in every run of the program.

        A constant depends on no parameter, random number, transfer, collective or custom call. `get_dimension_size` is
        always constant.
        """
        self._check_owned("is_constant", op)
        return constant_graph.is_constant(op.instruction)

    def build_constant_sub_graph(self, root: XlaOp, dynamic_dimension_is_minus_one: bool = False) -> XlaComputation:
        """Returns a computation without parameters that computes the value of a constant op. This builder is not
        changed.

        In that computation, the size of a dynamic dimension is its bound, or -1 on request. Raises BuilderError if the
        op is not constant (`is_constant`).
        """
        if not self.is_constant(root):
            fail(
                "build_constant_sub_graph",
                codes.CONSTANT_VALUE,
                f"{root.name} {root.shape.to_text(layout=False)} depends on how the program is run",
            )
        name = f"{self.name}_compute_constant"
        return constant_graph.constant_sub_graph(name, root.instruction, dynamic_dimension_is_minus_one)

    @eager_arguments
    def set_up_alias(
        self,
        output_index: Sequence[int],
        parameter_number: int,
        parameter_index: Sequence[int] = (),
        kind: Literal["may", "must"] = "may",
    ) -> None:
        """Places part of the result in the buffer of part of a parameter: if the caller donates it ("may"), or always
        ("must").

        Indices are paths into nested tuples; () is the whole value. `build`, which knows the result, checks them.
        """
        self._check_open("set_up_alias")
        if kind not in ("may", "must"):
            fail("set_up_alias", codes.NAMED_CHOICE, f"kind is 'may' or 'must', given {kind!r}")
        path = tuple(map(index, output_index))
        alias = Alias(path, index(parameter_number), tuple(map(index, parameter_index)), kind == "must")
        self._aliases.append(alias)

    @eager_arguments
    def add_buffer_donor(self, parameter_number: int, parameter_index: Sequence[int] = ()) -> None:
        """Allows the program to use the buffer of part of a parameter for any output. `build` checks that the buffer
        exists.
        """
        self._check_open("add_buffer_donor")
        self._donors.add(BufferDonor(index(parameter_number), tuple(map(index, parameter_index))))

    def build(self, root: XlaOp | None = None, remove_dynamic_dimensions: bool = False) -> XlaComputation:
        """Finishes the computation with `root` (default: the last op) as its result.

        `remove_dynamic_dimensions` makes every dimension static, with its bound as size. Raises BuilderError if the
        builder is empty or already finished, if the parameter numbers have gaps, or if an alias or a donor names no
        buffer.
        """
        self._check_open("build")
        result = self._root("build", root)
        self._check_parameters("build")
        edit.set_root(self._computation, result)
        if remove_dynamic_dimensions:
            for instruction in self._computation:
                edit.set_shape(instruction, _static(instruction.shape))
        program = self._computation.program_shape
        self._module.config.entry_computation_layout = ProgramShape(program.parameters, program.result)
        self._write_aliases()
        self._finished = True
        return XlaComputation(self._module)

    # -- used by the functions of builder/<family>.py

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
        """Appends one instruction with the current annotations and the user's line.

        `attributes` default to the op's own defaults. Without `shape`, the op infers it; the op's rule checks a
        declared shape. Called computations are copied into the builder's module, each once. Raises BuilderError, as
        `OperandError` if the op rejects the operands.
        """
        self._check_open(op.name)
        for operand in operands:
            self._check_owned(op.name, operand)
        for computation in computations:
            _check_computation(op.name, computation)
        attributes = op.attributes.make() if attributes is None else attributes
        result = _judged(op, operands, attributes, computations, shape)
        self._check_sharding(op.name, result)
        inputs = [operand.instruction for operand in operands]
        called = [self._import(computation) for computation in computations]
        notes = self._annotations
        metadata = notes.metadata(user_metadata())
        name = name or notes.instruction_name
        self._last = edit.create(
            self._computation, op, inputs, attributes, called, shape=result, name=name, metadata=metadata
        )
        if notes is not PLAIN:
            notes.write_on(self._last)
            self._annotations = notes.after_one_op
        return XlaOp(self, self._last)

    def parameter_shape(self, number: int) -> Shape | None:
        """The shape of the parameter with a number; None if it does not exist yet."""
        parameters = self._computation.parameters
        place = bisect_left(parameters, number, key=lambda p: p.parameter_number)
        found = place < len(parameters) and parameters[place].parameter_number == number
        return parameters[place].shape if found else None

    def last_of(self, op: OpDef) -> XlaOp | None:
        """The latest instruction of an op in the computation; None if there is none yet."""
        found = next((i for i in reversed(self._computation.instructions) if i.op is op), None)
        return None if found is None else XlaOp(self, found)

    def building(self, name: str) -> Transaction:
        """`with builder.building("add"):` makes the instructions appended inside atomic: if one fails, none remains.

        A ShapeError or InvalidArgumentError raised inside becomes a BuilderError at the user's line.
        """
        return Transaction(self, name)

    def _import(self, computation: XlaComputation) -> Computation:
        """Returns the copy of a computation, with all computations it calls, in this builder's module."""
        found = self._imported.get(computation)
        if found is None:
            made: dict[Computation, Computation] = {}
            for original in computation_post_order(computation.module):
                made[original] = edit.clone_computation(original, self._module, made)
            found = self._imported[computation] = made[computation.module.entry_computation]
        return found

    def _check_open(self, name: str) -> None:
        if self._finished:
            fail(name, codes.OPEN_BUILDER, f"builder {self.name} is finished; no op can be added after build()")

    def _check_owned(self, name: str, operand: XlaOp) -> None:
        if not isinstance(operand, XlaOp):
            fail(
                name,
                codes.OPERAND_KIND,
                f"takes XlaOps, given {type(operand).__name__} {operand!r}; ops.constant creates one from a value",
            )
        if operand.builder is not self:
            fail(
                name,
                codes.OWN_OPERANDS,
                f"operand {operand.instruction.name} {operand.shape.to_text(layout=False)} "
                f"belongs to builder {operand.builder.name}, "
                f"not to {self.name}; pass it in as a parameter",
            )

    def _check_changeable(self, name: str, op: XlaOp) -> None:
        self._check_open(name)
        self._check_owned(name, op)

    def _check_sharding(self, name: str, shape: Shape) -> None:
        try:
            self._annotations.check(shape)
        except ShapeError as error:
            fail(name, error.code, f"cannot have the sharding that is set: {error.message}")

    def _write_aliases(self) -> None:
        config = self._module.config
        config.input_output_alias = tuple(sorted(self._aliases, key=lambda alias: alias.output_index))
        config.buffer_donors = tuple(sorted(self._donors, key=lambda d: (d.parameter_number, d.parameter_index)))
        try:
            verify_aliases(self._module)
        except VerificationError as error:
            fail("build", error.code, error.message)

    def _root(self, name: str, root: XlaOp | None) -> Instruction:
        if root is not None:
            self._check_owned(name, root)
            return root.instruction
        if self._last is None:
            fail(name, codes.BUILT_ROOT, f"builder {self.name} has no ops, so it has no root")
        return self._last

    def _check_parameters(self, name: str) -> None:
        numbers = [p.parameter_number for p in self._computation.parameters]
        if numbers != list(range(len(numbers))):
            fail(
                name,
                modules_codes.PARAMETER_NUMBERS,
                f"parameters of builder {self.name} must be numbered 0 to {len(numbers) - 1}, found {numbers}",
            )

    def _position(self) -> tuple[int, Instruction | None, Annotations]:
        """Returns what `_undo` takes to restore the builder as it is now."""
        return len(self._computation), self._last, self._annotations

    def _undo(self, length: int, last: Instruction | None, annotations: Annotations) -> None:
        """Removes the instructions after the first `length`, and the computations that only they called."""
        for instruction in reversed(self._computation.instructions[length:]):
            if is_parameter(instruction):
                edit.remove_parameter(instruction, renumber=False)
            else:
                edit.remove(instruction)
        for computation in reversed(self._module.computations):  # a computation comes after its callees
            if computation is not self._computation and not computation.callers:
                edit.remove_computation(computation)
        self._imported = {source: copy for source, copy in self._imported.items() if copy.module is not None}
        self._last = last
        self._annotations = annotations


class Transaction:
    """The context manager that `XlaBuilder.building` returns."""

    __slots__ = ("builder", "name", "position")

    def __init__(self, builder: XlaBuilder, name: str) -> None:
        self.builder = builder
        self.name = name

    def __enter__(self) -> None:
        self.position = self.builder._position()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        self.builder._undo(*self.position)
        if isinstance(error, ShapeError | InvalidArgumentError) and not isinstance(error, BuilderError):
            raise as_builder_error(self.name, error) from None


def _check_computation(name: str, computation: XlaComputation) -> None:
    if not isinstance(computation, XlaComputation):
        fail(
            name,
            codes.OPERAND_KIND,
            f"calls an XlaComputation, given {type(computation).__name__}; build() creates one",
        )


def _judged(
    op: OpDef,
    operands: Sequence[XlaOp],
    attributes: Attributes,
    computations: Sequence[XlaComputation],
    declared: Shape | None,
) -> Shape:
    """Returns the shape of a new instruction: inferred, or the declared one if the op's rule accepts it."""
    shapes = [operand.shape for operand in operands]
    programs = [computation.program_shape for computation in computations]
    try:
        if declared is None:
            return op.result_shape(shapes, attributes, programs)
        op.verify(declared, shapes, attributes, programs)
    except (ShapeError, InvalidArgumentError) as error:
        raise as_builder_error(op.name, error) from None
    return declared


def _static(shape: Shape) -> Shape:
    """Returns the shape with every bounded dimension made static."""
    if shape.is_tuple:
        return Shape.tuple(map(_static, shape.tuple_shapes))
    if not shape.is_array or not shape.is_dynamic:
        return shape
    return shape.with_dimensions(shape.dimensions, [size == UNBOUNDED for size in shape.dimensions])


def append(
    op: OpDef,
    operands: Sequence[XlaOp],
    attributes: Attributes | None = None,
    computations: Sequence[XlaComputation] = (),
    *,
    shape: Shape | None = None,
) -> XlaOp:
    """Calls `XlaBuilder.append` of the builder that the operands belong to. There is at least one operand."""
    return builder_of(op.name, operands).append(op, operands, attributes, computations, shape=shape)


def builder_of(name: str, operands: Sequence[object]) -> XlaBuilder:
    """Returns the builder of the first XlaOp among operands, which may include plain values. Raises `BuilderError` if
    there is none.
    """
    found = next((operand for operand in operands if isinstance(operand, XlaOp)), None)
    if found is None:
        given = ", ".join(type(operand).__name__ for operand in operands) or "nothing"
        fail(name, codes.OPERAND_KIND, f"needs an XlaOp among its operands, given {given}")
    return found.builder


def fail(name: str, code: ErrorCode, message: str) -> NoReturn:
    """Raises `BuilderError` with the message `model.py:12: name: message`."""
    raise BuilderError(code, located(f"{name}: {message}"))


def as_builder_error(name: str, error: ShapeError | InvalidArgumentError) -> BuilderError:
    """Returns the error as a BuilderError at the user's line. The op's name is prefixed unless the message starts with
    it.
    """
    message = error.message
    if not message.startswith((f"{name}:", f"{name} ")):
        message = f"{name}: {message}"
    kind = OperandError if isinstance(error, ShapeError) else BuilderError
    return kind(error.code, located(message))
