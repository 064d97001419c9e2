"""Implements a back end: each program becomes one Python function of NumPy operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import xlapy as xla
from xlapy import opcodes
from xlapy.base.error_codes.operations.operands import SUPPORTED_OPERATION
from xlapy.hlo import edit
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import OpDef, Rules
from xlapy.passes import Fixpoint, Pipeline, parse_passes
from xlapy.passes.expand.expand import Expand
from xlapy.runtime import Device
from xlapy.runtime.backends.basic import BasicBackend, BasicProgram
from xlapy.runtime.values import Observer, Value

# -- the NumPy expression of each operation, as text with placeholders for the operands

Rule = Callable[..., str]
NUMPY: Rules[Rule] = Rules("numpy")

for op, function in {
    opcodes.ABS: "np.abs", opcodes.ADD: "np.add", opcodes.COSINE: "np.cos", opcodes.DIVIDE: "np.divide",
    opcodes.EXPONENTIAL: "np.exp", opcodes.LOG: "np.log", opcodes.MAXIMUM: "np.maximum",
    opcodes.MULTIPLY: "np.multiply", opcodes.NEGATE: "np.negative", opcodes.SINE: "np.sin", opcodes.SQRT: "np.sqrt",
    opcodes.SUBTRACT: "np.subtract", opcodes.TANH: "np.tanh",
}.items():  # fmt: skip
    NUMPY.rule(op)(lambda i, *operands, function=function: f"{function}({', '.join(operands)})")


@NUMPY.rule(opcodes.CONSTANT)
def constant(instruction: Instruction) -> str:
    array = instruction.literal.array
    return f"np.array({array.tolist()!r}, np.{array.dtype})".replace("inf", "np.inf").replace("nan", "np.nan")


@NUMPY.rule(opcodes.BROADCAST)
def broadcast(instruction: Instruction, operand: str) -> str:
    """Puts the operand's dimensions in the order of the result, adds new ones of size 1, and broadcasts them."""
    shape, kept = instruction.shape.dimensions, instruction.attributes.dimensions
    sizes = [shape[d] if d in kept else 1 for d in range(len(shape))]
    order = sorted(range(len(kept)), key=kept.__getitem__)
    ordered = operand if order == list(range(len(kept))) else f"{operand}.transpose({order})"
    return f"np.broadcast_to({ordered}.reshape({sizes}), {shape})"


@NUMPY.rule(opcodes.RESHAPE)
def reshape(instruction: Instruction, operand: str) -> str:
    return f"{operand}.reshape({instruction.shape.dimensions})"


@NUMPY.rule(opcodes.TRANSPOSE)
def transpose(instruction: Instruction, operand: str) -> str:
    return f"{operand}.transpose({tuple(instruction.attributes.dimensions)})"


@NUMPY.rule(opcodes.REDUCE)
def reduce(instruction: Instruction, operand: str, initial: str) -> str:
    body = instruction.to_apply.root_instruction
    functions = {opcodes.ADD: "np.add", opcodes.MAXIMUM: "np.maximum", opcodes.MULTIPLY: "np.multiply"}
    if body.op not in functions or not all(map(is_parameter, body.operands)):
        raise xla.errors.UnsupportedError(
            SUPPORTED_OPERATION,
            f"{instruction.name} (reduce): numpy supports reductions by add, maximum and multiply only",
        )
    axes = tuple(instruction.attributes.dimensions)
    return f"{functions[body.op]}.reduce({operand}, axis={axes}, initial={initial}[()])"


@NUMPY.rule(opcodes.TUPLE)
def pack(instruction: Instruction, *operands: str) -> str:
    return f"({', '.join(operands)},)"


@NUMPY.rule(opcodes.GET_TUPLE_ELEMENT)
def element(instruction: Instruction, operand: str) -> str:
    return f"{operand}[{instruction.index}]"


# -- from a module to a Python function


def optimized(module: Module) -> Module:
    """Returns a copy with one computation, in which passes have expanded operations without a rule where they can."""
    runs: frozenset[OpDef] = frozenset({*NUMPY, opcodes.PARAMETER})
    copy = edit.clone_module(module)
    simplify = Fixpoint(limit=4, passes=tuple(parse_passes("simplify,fold-constants,cse,dce")))
    Pipeline([*parse_passes("inline-calls"), Expand(runs=runs), simplify]).run(copy)
    return copy


def check_types(module: Module) -> None:
    """Raises `UnsupportedError` for element types that the rules above do not support."""
    for instruction in module.instructions():
        for _, leaf in instruction.shape.leaves():
            if not leaf.is_array or leaf.is_dynamic or leaf.element_type.name not in ("F32", "F64"):
                what = f"{instruction.name} ({instruction.op.name}) of shape {leaf.to_text(layout=False)}"
                raise xla.errors.UnsupportedError(
                    SUPPORTED_OPERATION, f"numpy supports f32 and f64 of static dimensions only, not {what}"
                )


def source(module: Module) -> str:
    """Returns the text of a function `run(arguments)`. Raises `UnsupportedError` for operations without a rule."""
    check_types(module)
    entry = module.entry_computation
    names: dict[Instruction, str] = {}
    lines = ["def run(arguments):"]
    for number, instruction in enumerate(post_order(entry)):
        names[instruction] = f"v{number}"
        if is_parameter(instruction):
            value = f"arguments[{instruction.attributes.number}]"
        else:
            value = NUMPY.find(instruction.op)(instruction, *[names[operand] for operand in instruction.operands])
        lines.append(f"    {names[instruction]} = {value}  # {instruction.name}")
    return "\n".join([*lines, f"    return {names[entry.root_instruction]}", ""])


# -- the interface of a back end


class NumpyProgram(BasicProgram):
    def __init__(self, module: Module) -> None:
        self.optimized_module = optimized(module)
        self.text = source(self.optimized_module)
        space: dict[str, Any] = {"np": np}
        exec(compile(self.text, f"<{module.name}>", "exec"), space)
        self.run: Callable[[Sequence[Value]], Value] = space["run"]

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        if observer is not None:
            raise xla.errors.UnsupportedError(
                SUPPORTED_OPERATION, "numpy cannot report the values of single instructions: use the interpreter"
            )
        with np.errstate(all="ignore"):
            return self.run(arguments)

    def stages(self) -> Mapping[str, str]:
        """Returns the source of the function; `--dump_to` writes it to a file that ends with `.py`."""
        return {"py": self.text}


class NumpyBackend(BasicBackend):
    name = "numpy"

    def compile_module(self, module: Module) -> NumpyProgram:
        return NumpyProgram(module)


xla.register_backend("numpy", NumpyBackend)

if __name__ == "__main__":
    text = """
    HloModule softmax
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
    ENTRY main {
      x = f32[2,3] parameter(0)
      zero = f32[] constant(0)
      e = f32[2,3] exponential(x)
      s = f32[2] reduce(e, zero), dimensions={1}, to_apply=add
      t = f32[2,3] broadcast(s), dimensions={0}
      d = f32[2,3] divide(e, t)
      ROOT l = f32[2,3] logistic(d)
    }
    """
    x = np.array([[1, 2, 3], [4, 4, 4]], np.float32)
    softmax = xla.Client("numpy").compile(text)
    print(softmax.as_hlo_text(optimized=True))
    print(np.asarray(softmax(x)))
    print("as on the interpreter:", np.allclose(softmax(x), xla.Client("interpreter").compile(text)(x)))
    try:
        xla.Client("numpy").compile("HloModule m\nENTRY e { ROOT r = f32[4] iota(), iota_dimension=0 }")
    except xla.errors.UnsupportedError as error:
        print("refused:", error)
