"""Changes of modules, and names in them.

Codes E2080 to E2099: the functions that look up, add, replace, reorder and remove instructions.
"""

from xlapy.base.error_codes.code import ErrorCode

# -- changing modules

ONE_OWNER = ErrorCode(
    "E2080",
    "An instruction is added to one computation only.",
    remedy="Add a copy, which `edit.clone_instruction` makes.",
    python="""
        from xlapy.hlo import edit
        module = xla.parse_hlo("ENTRY main { ROOT x = f32[] parameter(0) }")
        edit.append(module.entry, module.entry.root)
    """,
)
REPLACEMENT_SHAPE = ErrorCode(
    "E2081",
    "An instruction is replaced by one of the same shape.",
    remedy="Convert or reshape the replacement first.",
    python="""
        from xlapy.hlo import edit
        module = xla.parse_hlo("ENTRY main { x = f32[2] parameter(0)  ROOT y = f64[2] convert(x) }")
        edit.replace_uses(module.entry.find("x"), module.entry.find("y"))
    """,
)
REMOVED_IN_USE = ErrorCode(
    "E2082",
    "What is removed from a module is not in use: no user, caller, control edge, root, entry or parameter.",
    remedy="Replace the uses first; `edit.remove_parameter` removes a parameter from the signature.",
    python="""
        from xlapy.hlo import edit
        module = xla.parse_hlo("ENTRY main { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }")
        edit.remove(module.entry.find("y"))
    """,
)
COMPLETE_ORDER = ErrorCode(
    "E2083",
    "A new order contains each instruction of the computation, or each computation of the module, once.",
    remedy="Pass a permutation of the present order.",
    python="""
        from xlapy.hlo import edit
        module = xla.parse_hlo("ENTRY main { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }")
        edit.reorder(module.entry, [module.entry.root])
    """,
)
INLINED_CALL = ErrorCode(
    "E2084",
    "Only a call that is part of a computation is inlined.",
    remedy="Pass an instruction whose op is `call`.",
    python="""
        from xlapy.hlo.inlining import inline_call
        inline_call(xla.parse_hlo("ENTRY main { ROOT x = f32[] parameter(0) }").entry.root)
    """,
)

# -- looking things up

OPERAND_NUMBER = ErrorCode(
    "E2090",
    "The number of an operand is less than the number of operands.",
    remedy="Count operands from 0; `len(instruction.operands)` is their number.",
    python="xla.parse_hlo('ENTRY main { ROOT x = f32[] parameter(0) }').entry.root.operand(0)",
)
ATTRIBUTE_NAME = ErrorCode(
    "E2091",
    "An instruction has the attributes of its operation.",
    remedy="Check `instruction.op` first; `xlapy ops NAME` lists the attributes.",
    python="xla.parse_hlo('ENTRY main { ROOT x = f32[] parameter(0) }').entry.root.window",
)
NAME_IN_MODULE = ErrorCode(
    "E2092",
    "A computation or instruction that is asked for by name exists.",
    remedy="Print the module, or run `xlapy show`, to see the names; passes may rename or remove instructions.",
    python="xla.parse_hlo('ENTRY main { ROOT x = f32[] parameter(0) }').entry.find('y')",
)
CONNECTION = ErrorCode(
    "E2095",
    "A program that exchanges values with other devices or with the host is run by a client.",
    remedy="Compile the module with `xla.Client(...)`, and run the executable.",
    python="""
        from xlapy.interpreter import Context, evaluate_computation
        module = xla.parse_hlo("ENTRY main { t = token[] after-all()  ROOT x = (f32[2], token[]) infeed(t) }")
        evaluate_computation(Context(), module.entry, [])
    """,
)
