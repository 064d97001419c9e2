"""Generates HLO modules of a given number of instructions, each of a shape that stresses other parts of a compiler.

`SHAPES` maps the name of each shape to a function that takes a number of instructions and returns HLO text with about
that many. The same number always gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Generator = Callable[[int], str]

_ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"
_DIFFERENT_SIZES = 61
"""The number of different sizes in a shape whose instructions differ: kernels of one size would be one function."""


def _module(name: str, lines: Iterable[str], computations: str = "") -> str:
    body = "\n  ".join(lines)
    return f"HloModule {name}\n{computations}ENTRY main {{\n  {body}\n}}\n"


def _tuple(shapes: list[str], values: list[str]) -> str:
    return f"ROOT root = ({', '.join(shapes)}) tuple({', '.join(values)})"


def _size(number: int) -> int:
    return 3 + number * 7 % _DIFFERENT_SIZES


def elementwise_chain(count: int) -> str:
    """A chain of elementwise operations on 64 elements."""
    lines = ["v0 = f32[64] parameter(0)"]
    for n in range(1, count):
        op = ("tanh(v{0})", "add(v{0}, v0)", "multiply(v{0}, v0)", "negate(v{0})")[n % 4]
        lines.append(f"v{n} = f32[64] {op.format(n - 1)}")
    return _module("elementwise_chain", [*lines[:-1], f"ROOT {lines[-1]}"])


def scalar_chain(count: int) -> str:
    """A chain of operations on integers, each of which needs the two before."""
    lines = ["v0 = s32[] parameter(0)", "v1 = s32[] parameter(1)"]
    for n in range(2, count):
        op = ("add", "multiply", "xor", "subtract", "maximum")[n % 5]
        lines.append(f"v{n} = s32[] {op}(v{n - 1}, v{n - 2})")
    return _module("scalar_chain", [*lines[:-1], f"ROOT {lines[-1]}"])


def tree(count: int) -> str:
    """A binary tree of additions over slices of a parameter."""
    leaves = count // 2
    lines = [f"p = f32[{leaves},8] parameter(0)"]
    level = [f"s.{n}" for n in range(leaves)]
    lines += [f"s.{n} = f32[1,8] slice(p), slice={{[{n}:{n + 1}], [0:8]}}" for n in range(leaves)]
    number = 0
    while len(level) > 1:
        above = [] if len(level) % 2 == 0 else [level[-1]]
        for a, b in zip(level[::2], level[1::2], strict=False):
            lines.append(f"t{number} = f32[1,8] {'add' if number % 3 else 'maximum'}({a}, {b})")
            above.append(f"t{number}")
            number += 1
        level = above
    return _module("tree", [*lines[:-1], f"ROOT {lines[-1]}"])


def independent(count: int) -> str:
    """Small computations of different sizes that do not depend on each other, each with a result."""
    lines, shapes, values = list[str](), list[str](), list[str]()
    for n in range(count // 4):
        shape = f"f32[{_size(n)}]"
        lines += [f"p{n} = {shape} parameter({n})", f"a{n} = {shape} sine(p{n})"]
        lines += [f"b{n} = {shape} add(a{n}, p{n})", f"c.{n} = {shape} multiply(b{n}, a{n})"]
        shapes.append(shape)
        values.append(f"c.{n}")
    return _module("independent", [*lines, _tuple(shapes, values)])


def independent_products(count: int) -> str:
    """Products of different sizes that do not depend on each other, each with a temporary and a result."""
    lines, shapes, values = list[str](), list[str](), list[str]()
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for n in range(count // 3):
        shape = f"f32[{_size(n)},{_size(n)}]"
        lines += [f"p{n} = {shape} parameter({n})", f"a{n} = {shape} dot(p{n}, p{n}), {contracted}"]
        lines.append(f"b{n} = {shape} dot(a{n}, p{n}), {contracted}")
        shapes.append(shape)
        values.append(f"b{n}")
    return _module("independent_products", [*lines, _tuple(shapes, values)])


def parameters(count: int) -> str:
    """A parameter and a result for each instruction."""
    number = count // 2
    lines = [f"p{n} = f32[4] parameter({n})" for n in range(number)]
    lines += [f"r{n} = f32[4] add(p{n}, p{(n + 1) % number})" for n in range(number)]
    return _module("parameters", [*lines, _tuple(["f32[4]"] * number, [f"r{n}" for n in range(number)])])


def call_nests(count: int) -> str:
    """Nests of calls, 90 deep; each computation has four instructions and one caller."""
    computations, lines, value = list[str](), ["x = f32[16] parameter(0)"], "x"
    for nest in range(max(1, count // 360)):
        for depth in range(90):
            body = ["x = f32[16] parameter(0)", "a = f32[16] sine(x)"]
            body += ["b = f32[16] add(a, x)"]
            last = f"call(b), to_apply=f{nest}_{depth - 1}" if depth else "negate(b)"
            computations.append(f"f{nest}_{depth} {{ {'  '.join(body)}  ROOT r = f32[16] {last} }}\n")
        lines.append(f"c.{nest} = f32[16] call({value}), to_apply=f{nest}_89")
        value = f"c.{nest}"
    return _module("call_nests", [*lines[:-1], f"ROOT {lines[-1]}"], "".join(computations))


def shared_calls(count: int) -> str:
    """Calls of one computation of 100 instructions, which is too large to be inlined at each of them. The number of
    instructions is that with all calls expanded."""
    body = ["v0 = f32[16] parameter(0)"]
    body += [f"v{n} = f32[16] {'sine' if n % 2 else 'negate'}(v{n - 1})" for n in range(1, 99)]
    shared = f"shared {{ {'  '.join(body)}  ROOT r = f32[16] add(v98, v0) }}\n"
    lines = ["c.0 = f32[16] parameter(0)"]
    lines += [f"c.{n} = f32[16] call(c.{n - 1}), to_apply=shared" for n in range(1, 1 + max(1, count // 100))]
    return _module("shared_calls", [*lines[:-1], f"ROOT {lines[-1]}"], shared)


def whiles(count: int) -> str:
    """Loops with own bodies, one after the other."""
    computations, lines, value = list[str](), ["x = f32[16] parameter(0)", "zero = s32[] constant(0)"], "x"
    for n in range(max(1, count // 16)):
        state = "(s32[], f32[16])"
        computations.append(
            f"c.{n} {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  "
            f"n = s32[] constant({n + 1000})  ROOT r = pred[] compare(i, n), direction=LT }}\n"
            f"b{n} {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  "
            f"x = f32[16] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)  "
            f"y = f32[16] sine(x)  z = f32[16] add(y, x)  ROOT t = {state} tuple(j, z) }}\n"
        )
        lines.append(f"t{n} = {state} tuple(zero, {value})")
        lines.append(f"w{n} = {state} while(t{n}), condition=c.{n}, body=b{n}")
        lines.append(f"v{n} = f32[16] get-tuple-element(w{n}), index=1")
        value = f"v{n}"
    return _module("whiles", [*lines[:-1], f"ROOT {lines[-1]}"], "".join(computations))


def conditionals(count: int) -> str:
    """Conditionals with own branches, one after the other."""
    computations, lines, value = list[str](), ["x = f32[16] parameter(0)", "p = pred[] parameter(1)"], "x"
    for n in range(max(1, count // 9)):
        computations.append(
            f"a{n} {{ x = f32[16] parameter(0)  y = f32[16] sine(x)  z = f32[16] add(y, x)  ROOT r = f32[16] "
            f"negate(z) }}\nb{n} {{ x = f32[16] parameter(0)  y = f32[16] cosine(x)  z = f32[16] multiply(y, x)  "
            f"ROOT r = f32[16] exponential(z) }}\n"
        )
        lines.append(f"v{n} = f32[16] conditional(p, {value}, {value}), true_computation=a{n}, false_computation=b{n}")
        value = f"v{n}"
    return _module("conditionals", [*lines[:-1], f"ROOT {lines[-1]}"], "".join(computations))


def nested_tuples(count: int) -> str:
    """Tuples in tuples, 50 deep, that are taken apart again."""
    lines, value = ["x = f32[16] parameter(0)"], "x"
    for nest in range(max(1, count // 102)):
        shape, held = "f32[16]", value
        for depth in range(50):
            shape = f"({shape}, f32[16])"
            lines.append(f"t{nest}_{depth} = {shape} tuple({held}, {value})")
            held = f"t{nest}_{depth}"
        for depth in range(50):
            shape = shape[1 : -len(", f32[16])")]
            lines.append(f"g{nest}_{depth} = {shape} get-tuple-element({held}), index=0")
            held = f"g{nest}_{depth}"
        lines.append(f"n{nest} = f32[16] sine({held})")
        value = f"n{nest}"
    return _module("nested_tuples", [*lines[:-1], f"ROOT {lines[-1]}"])


def unrolled_rnn(count: int) -> str:
    """An unrolled recurrent network, whose steps slice one input."""
    steps = max(1, count // 5)
    lines = [f"x = f32[{steps},4,16] parameter(0)", "w = f32[16,16] parameter(1)", "h0 = f32[4,16] parameter(2)"]
    for n in range(steps):
        lines.append(f"s.{n} = f32[1,4,16] slice(x), slice={{[{n}:{n + 1}], [0:4], [0:16]}}")
        lines.append(f"i{n} = f32[4,16] reshape(s.{n})")
        lines.append(f"d{n} = f32[4,16] dot(h{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        lines.append(f"a{n} = f32[4,16] add(d{n}, i{n})")
        lines.append(f"h{n + 1} = f32[4,16] tanh(a{n})")
    return _module("unrolled_rnn", [*lines[:-1], f"ROOT {lines[-1]}"])


def different_layers(count: int) -> str:
    """A perceptron with layers of different sizes."""
    width = _size(0)
    lines, value = [f"x = f32[8,{width}] parameter(0)"], "x"
    for n in range(max(1, count // 6)):
        after = _size(n + 1)
        lines.append(f"w{n} = f32[{width},{after}] parameter({2 * n + 1})")
        lines.append(f"b{n} = f32[{after}] parameter({2 * n + 2})")
        contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        lines.append(f"d{n} = f32[8,{after}] dot({value}, w{n}), {contracted}")
        lines.append(f"c.{n} = f32[8,{after}] broadcast(b{n}), dimensions={{1}}")
        lines.append(f"a{n} = f32[8,{after}] add(d{n}, c.{n})")
        lines.append(f"v{n} = f32[8,{after}] tanh(a{n})")
        value, width = f"v{n}", after
    return _module("different_layers", [*lines[:-1], f"ROOT {lines[-1]}"])


def different_transformers(count: int) -> str:
    """Transformer layers without heads, whose inner widths and lengths differ."""
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines, value = ["x = f32[24,32] parameter(0)", "zero = f32[] constant(0)", "low = f32[] constant(-inf)"], "x"
    computations = _ADD + _ADD.replace("add", "maximum")
    parameter = 1
    for n in range(max(1, count // 34)):
        inner, keys = 8 + _size(n), 8 + _size(3 * n + 1)
        made: list[tuple[str, str]] = [("mean", "f32[24] reduce(x, zero), dimensions={1}, to_apply=add")]
        made += [("spread", "f32[24,32] broadcast(mean), dimensions={0}"), ("moved", "f32[24,32] subtract(x, spread)")]
        made += [("squares", "f32[24,32] multiply(moved, moved)")]
        made += [("variance", "f32[24] reduce(squares, zero), dimensions={1}, to_apply=add")]
        made += [("scale", "f32[24] rsqrt(variance)"), ("scales", "f32[24,32] broadcast(scale), dimensions={0}")]
        made += [("normal", "f32[24,32] multiply(moved, scales)")]
        for name, shape in (
            ("wq", f"32,{keys}"), ("wk", f"32,{keys}"), ("wv", f"32,{keys}"), ("wo", f"{keys},32"),
            ("up", f"32,{inner}"), ("down", f"{inner},32"),
        ):  # fmt: skip
            made.append((name, f"f32[{shape}] parameter({parameter})"))
            parameter += 1
        made += [(name, f"f32[24,{keys}] dot(normal, w{name}), {contracted}") for name in "qkv"]
        made += [("scores", "f32[24,24] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}")]
        made += [("most", "f32[24] reduce(scores, low), dimensions={1}, to_apply=maximum")]
        made += [
            ("mosts", "f32[24,24] broadcast(most), dimensions={0}"),
            ("less", "f32[24,24] subtract(scores, mosts)"),
        ]
        made += [("weights", "f32[24,24] exponential(less)")]
        made += [("total", "f32[24] reduce(weights, zero), dimensions={1}, to_apply=add")]
        made += [
            ("totals", "f32[24,24] broadcast(total), dimensions={0}"),
            ("soft", "f32[24,24] divide(weights, totals)"),
        ]
        made += [("mixed", f"f32[24,{keys}] dot(soft, v), {contracted}")]
        made += [("out", f"f32[24,32] dot(mixed, wo), {contracted}"), ("middle", "f32[24,32] add(out, x)")]
        made += [("wide", f"f32[24,{inner}] dot(middle, up), {contracted}"), ("act", f"f32[24,{inner}] tanh(wide)")]
        made += [("narrow", f"f32[24,32] dot(act, down), {contracted}"), ("end", "f32[24,32] add(narrow, middle)")]
        names = {name: f"{name}{n}" for name, _ in made} | {"x": value}
        for name, text in made:
            shape, call = text.split(" ", 1)
            op, rest = call.split("(", 1)
            operands, attributes = rest.split(")", 1)
            renamed = operands if op == "parameter" else ", ".join(names.get(o, o) for o in operands.split(", "))
            lines.append(f"{names[name]} = {shape} {op}({renamed}){attributes}")
        value = names["end"]
    return _module("different_transformers", [*lines[:-1], f"ROOT {lines[-1]}"], computations)


def reduces(count: int) -> str:
    """Reductions of different sizes, whose results are added up."""
    lines, value = ["zero = f32[] constant(0)"], "zero"
    for n in range(max(1, count // 3)):
        lines.append(f"p{n} = f32[{_size(n)},{_size(n * 5)}] parameter({n})")
        lines.append(f"r{n} = f32[] reduce(p{n}, zero), dimensions={{0,1}}, to_apply=add")
        lines.append(f"v{n} = f32[] add({value}, r{n})")
        value = f"v{n}"
    return _module("reduces", [*lines[:-1], f"ROOT {lines[-1]}"], _ADD)


def reduce_chain(count: int) -> str:
    """Sums over the rows of one array, each of which is subtracted from it before the next."""
    lines, value = ["x = f32[32,48] parameter(0)", "zero = f32[] constant(0)"], "x"
    for n in range(max(1, count // 4)):
        lines.append(f"r{n} = f32[32] reduce({value}, zero), dimensions={{1}}, to_apply=add")
        lines.append(f"b{n} = f32[32,48] broadcast(r{n}), dimensions={{0}}")
        lines.append(f"s.{n} = f32[32,48] subtract({value}, b{n})")
        lines.append(f"v{n} = f32[32,48] sine(s.{n})")
        value = f"v{n}"
    return _module("reduce_chain", [*lines[:-1], f"ROOT {lines[-1]}"], _ADD)


def small_dots(count: int) -> str:
    """A chain of products of 4 x 4."""
    lines = ["d0 = f32[4,4] parameter(0)", "w = f32[4,4] parameter(1)"]
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines += [f"d{n} = f32[4,4] dot(d{n - 1}, {'w' if n % 3 else 'd0'}), {contracted}" for n in range(1, count)]
    return _module("small_dots", [*lines[:-1], f"ROOT {lines[-1]}"])


def slice_updates(count: int) -> str:
    """Reads and updates of one array at computed positions."""
    lines = ["b0 = f32[1024,8] parameter(0)", "i0 = s32[] parameter(1)", "zero = s32[] constant(0)"]
    for n in range(max(1, count // 4)):
        lines.append(f"s.{n} = f32[1,8] dynamic-slice(b{n}, i{n}, zero), dynamic_slice_sizes={{1,8}}")
        lines.append(f"m{n} = f32[1,8] sine(s.{n})")
        lines.append(f"i{n + 1} = s32[] add(i{n}, i0)")
        lines.append(f"b{n + 1} = f32[1024,8] dynamic-update-slice(b{n}, m{n}, i{n + 1}, zero)")
    return _module("slice_updates", [*lines[:-1], f"ROOT {lines[-1]}"])


def constants(count: int) -> str:
    """A constant array for every second instruction."""
    lines = ["v0 = f32[8] parameter(0)"]
    for n in range(count // 2):
        elements = ", ".join(str((n * 8 + k) % 977) for k in range(8))
        lines.append(f"c.{n} = f32[8] constant({{{elements}}})")
        lines.append(f"v{n + 1} = f32[8] {'add' if n % 2 else 'multiply'}(v{n}, c.{n})")
    return _module("constants", [*lines[:-1], f"ROOT {lines[-1]}"])


def gathers_and_scatters(count: int) -> str:
    """Gathers of rows, and scatters that add them to other rows."""
    lines = ["t0 = f32[64,8] parameter(0)"]
    for n in range(max(1, count // 4)):
        lines.append(f"i{n} = s32[{_size(n)}] parameter({n + 1})")
        lines.append(
            f"g{n} = f32[{_size(n)},8] gather(t{n}, i{n}), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"
        )
        lines.append(f"s.{n} = f32[{_size(n)},8] sine(g{n})")
        lines.append(
            f"t{n + 1} = f32[64,8] scatter(t{n}, i{n}, s.{n}), update_window_dims={{1}}, inserted_window_dims={{0}}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
        )
    return _module("gathers_and_scatters", [*lines[:-1], f"ROOT {lines[-1]}"], _ADD)


def long_lived(count: int) -> str:
    """Products that are all alive at once: the last uses come in the order of the definitions."""
    half = count // 2
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = ["d0 = f32[8,8] parameter(0)"]
    lines += [f"d{n} = f32[8,8] dot(d{n - 1}, d0), {contracted}" for n in range(1, half)]
    lines.append("a0 = f32[8,8] negate(d0)")
    lines += [f"a{n} = f32[8,8] dot(a{n - 1}, d{n}), {contracted}" for n in range(1, half)]
    return _module("long_lived", [*lines[:-1], f"ROOT {lines[-1]}"])


def many_users(count: int) -> str:
    """One value with a user for each third instruction, which reads its own row of it."""
    lines = [f"p = f32[{count // 3},8] parameter(0)", f"x = f32[{count // 3},8] sine(p)", "v0 = f32[1,8] parameter(1)"]
    for n in range(count // 3):
        lines.append(f"s.{n} = f32[1,8] slice(x), slice={{[{n}:{n + 1}], [0:8]}}")
        lines.append(f"m{n} = f32[1,8] multiply(s.{n}, v{n})")
        lines.append(f"v{n + 1} = f32[1,8] cosine(m{n})")
    return _module("many_users", [*lines[:-1], f"ROOT {lines[-1]}"])


def diamonds(count: int) -> str:
    """Values with two elementwise users each, which join again."""
    lines = ["v0 = f32[32,16] parameter(0)"]
    for n in range(max(1, count // 3)):
        lines.append(f"a{n} = f32[32,16] {'sine' if n % 2 else 'tanh'}(v{n})")
        lines.append(f"b{n} = f32[32,16] {'negate' if n % 3 else 'abs'}(v{n})")
        lines.append(f"v{n + 1} = f32[32,16] add(a{n}, b{n})")
    return _module("diamonds", [*lines[:-1], f"ROOT {lines[-1]}"])


def optimizer(count: int) -> str:
    """An optimizer's update of many weights of different sizes: three parameters and three results for each."""
    lines = ["rate = f32[] parameter(0)", "decay = f32[] constant(0.9)"]
    shapes, values = list[str](), list[str]()
    for n in range(max(1, count // 12)):
        shape = f"f32[{_size(n)},{_size(n * 3)}]"
        lines += [f"{name}{n} = {shape} parameter({3 * n + k + 1})" for k, name in enumerate("wmg")]
        lines += [f"d{n} = {shape} broadcast(decay), dimensions={{}}", f"a{n} = {shape} multiply(m{n}, d{n})"]
        lines += [f"n{n} = {shape} add(a{n}, g{n})", f"r{n} = {shape} broadcast(rate), dimensions={{}}"]
        lines += [f"s.{n} = {shape} multiply(n{n}, r{n})", f"u.{n} = {shape} subtract(w{n}, s.{n})"]
        lines += [
            f"q{n} = {shape} multiply(g{n}, g{n})",
            f"e{n} = {shape} sqrt(q{n})",
            f"k{n} = {shape} add(e{n}, m{n})",
        ]
        shapes += [shape] * 3
        values += [f"n{n}", f"u.{n}", f"k{n}"]
    return _module("optimizer", [*lines, _tuple(shapes, values)])


def concatenations(count: int) -> str:
    """Slices of an array that are moved and joined again, in groups of 16."""
    lines = ["v0 = f32[128] parameter(0)"]
    for n in range(max(1, count // 34)):
        for k in range(16):
            lines.append(f"s.{n}_{k} = f32[8] slice(v{n}), slice={{[{8 * k}:{8 * k + 8}]}}")
            lines.append(f"m{n}_{k} = f32[8] {'sine' if k % 2 else 'negate'}(s.{n}_{k})")
        joined = ", ".join(f"m{n}_{15 - k}" for k in range(16))
        lines.append(f"c.{n} = f32[128] concatenate({joined}), dimensions={{0}}")
        lines.append(f"v{n + 1} = f32[128] cosine(c.{n})")
    return _module("concatenations", [*lines[:-1], f"ROOT {lines[-1]}"])


SHAPES: dict[str, Generator] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        elementwise_chain, scalar_chain, tree, independent, independent_products, parameters, call_nests, shared_calls,
        whiles, conditionals, nested_tuples, unrolled_rnn, different_layers, different_transformers, reduces,
        reduce_chain, small_dots, slice_updates, constants, gathers_and_scatters, long_lived, many_users, diamonds,
        optimizer, concatenations,
    )
}  # fmt: skip
