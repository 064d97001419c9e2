"""Modules: their structure, and the layout, aliases and donors of the entry.

Codes E2000 to E2029: rules of the verifier.
"""

from xlapy.base.error_codes.code import ErrorCode

# -- computations

ENTRY_COMPUTATION = ErrorCode(
    "E2000",
    "A module has an entry computation.",
    remedy="Mark a computation with `ENTRY`, or pass `entry=True` to `edit.add_computation`.",
    python="from xlapy.hlo.verify import verify\nverify(xla.Module('m'))",
)
CALL_CYCLE = ErrorCode(
    "E2001",
    "Computations do not call each other in a cycle.",
    remedy="Use a while loop in place of recursion.",
    hlo="""
        HloModule m
        f {
          x = f32[] parameter(0)
          ROOT y = f32[] call(x), to_apply=f
        }
        ENTRY main {
          x = f32[] parameter(0)
          ROOT y = f32[] call(x), to_apply=f
        }
    """,
)
ENTRY_CALLED = ErrorCode(
    "E2002",
    "No instruction calls the entry computation.",
    remedy="Call a copy of the entry, or make another computation the entry.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[] parameter(0)
        }
        other {
          x = f32[] parameter(0)
          ROOT y = f32[] call(x), to_apply=main
        }
    """,
)
ROOT = ErrorCode(
    "E2003",
    "A computation has a root, which is one of its instructions.",
    remedy="Set the root with `edit.set_root`.",
    python="""
        from xlapy.hlo import edit
        from xlapy.hlo.verify import verify
        module = xla.Module("m")
        edit.add_computation(module, "main", entry=True)
        verify(module)
    """,
)
PARAMETER_NUMBERS = ErrorCode(
    "E2004",
    "The parameters of a computation are numbered from 0, without gaps or repeats.",
    remedy="Number them in the order of the arguments.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[] parameter(0)
          y = f32[] parameter(2)
          ROOT sum = f32[] add(x, y)
        }
    """,
)
SAME_COMPUTATION = ErrorCode(
    "E2005",
    "Operands, control predecessors and the root of a computation are instructions of that computation.",
    remedy="Pass values of other computations as parameters.",
    python="""
        from xlapy.hlo import edit
        module = xla.parse_hlo('''
          f { ROOT x = f32[] parameter(0) }
          ENTRY main { ROOT y = f32[] parameter(0) }
        ''')
        edit.set_root(module.entry, module.find("f").root)
    """,
)
CALLED_IN_MODULE = ErrorCode(
    "E2006",
    "A called computation is part of the module of its caller.",
    remedy="Add the computation to the module with `edit.add_computation`.",
    python="""
        from xlapy.hlo import edit
        from xlapy.hlo.verify import verify
        text = '''
          f { ROOT x = f32[] parameter(0) }
          ENTRY main {
            x = f32[] parameter(0)
            ROOT y = f32[] call(x), to_apply=f
          }
        '''
        module, other = xla.parse_hlo(text), xla.parse_hlo(text)
        edit.set_computations(module.entry.root, [other.find("f")])
        verify(module)
    """,
)
DEPENDENCY_CYCLE = ErrorCode(
    "E2007",
    "Instructions of a computation do not depend on each other in a cycle.",
    remedy="Remove one of the control predecessors or operands that the message lists.",
    python="""
        from xlapy.hlo import edit
        from xlapy.hlo.verify import verify
        module = xla.parse_hlo("ENTRY main { x = f32[] parameter(0)  y = f32[] negate(x)  ROOT z = f32[] negate(y) }")
        edit.add_control_edge(module.entry.find("z"), module.entry.find("y"))
        verify(module)
    """,
)
SCHEDULE_ORDER = ErrorCode(
    "E2008",
    "In a module with `is_scheduled=true`, each instruction follows its operands and control predecessors.",
    remedy="Reorder the instructions, or remove `is_scheduled=true`.",
    python="""
        from xlapy.hlo import edit
        from xlapy.hlo.verify import verify
        module = xla.parse_hlo(
            "HloModule m, is_scheduled=true  ENTRY main { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }"
        )
        edit.reorder(module.entry, list(module.entry)[::-1])
        verify(module)
    """,
)
UNIQUE_NAMES = ErrorCode(
    "E2009",
    "The computations of a module have different names, and so have the instructions of a computation.",
    remedy="Rename one of the two.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[] parameter(0)
          ROOT x = f32[] negate(x)
        }
    """,
)
MODULE_SIZE = ErrorCode(
    "E2010",
    "The tuples of all instructions of a module have at most 4194304 elements, inner ones included.",
    remedy="Concatenate arrays, so that instructions repeat smaller tuples.",
    python="""
        leaves = ", ".join(["f32[]"] * 65535)
        lines = "  ".join(f"x{i} = ({leaves}) parameter({i})" for i in range(65))
        xla.parse_hlo("ENTRY main { " + lines + " }", verify=True)
    """,
)
UNIFORM_PRECISION = ErrorCode(
    "E2011",
    "The floating-point operands of collectives, reductions, scatters and maps have one element type.",
    remedy="Convert the operands that the message names.",
    hlo="""
        HloModule m
        f {
          x = f32[] parameter(0)
          y = bf16[] parameter(1)
          ROOT z = f32[] negate(x)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          y = bf16[2] parameter(1)
          ROOT z = f32[2] map(x, y), dimensions={0}, to_apply=f
        }
    """,
)
FUSED_USERS = ErrorCode(
    "E2012",
    "In a fused computation the root has no users, and every other instruction has one.",
    remedy="Remove unused instructions from the fused computation, and make the last one its root.",
    hlo="""
        HloModule m
        fused {
          x = f32[] parameter(0)
          unused = f32[] negate(x)
          ROOT y = f32[] exponential(x)
        }
        ENTRY main {
          x = f32[] parameter(0)
          ROOT y = f32[] fusion(x), kind=kLoop, calls=fused
        }
    """,
)

# -- the entry's layout, aliases and donors

ENTRY_LAYOUT = ErrorCode(
    "E2020",
    "`entry_computation_layout` has the shapes of the entry's parameters and result.",
    remedy="Correct the shapes, or leave the attribute out.",
    hlo="""
        HloModule m, entry_computation_layout={(f32[3]{0})->f32[3]{0}}
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] negate(x)
        }
    """,
)
ALIAS_ONCE = ErrorCode(
    "E2021",
    "An output is aliased with one parameter, and a parameter with one output.",
    remedy="Remove one of the two entries of `input_output_alias`.",
    hlo="""
        HloModule m, input_output_alias={ {0}: (0, {}), {1}: (0, {}) }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = (f32[2], f32[2]) tuple(x, x)
        }
    """,
)
ALIAS_SIZE = ErrorCode(
    "E2022",
    "An output and the parameter that it is aliased with have the same number of bytes.",
    remedy="Alias another parameter, or none.",
    hlo="""
        HloModule m, input_output_alias={ {}: (0, {}) }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f64[2] convert(x)
        }
    """,
)
ALIAS_MUST = ErrorCode(
    "E2023",
    "An output that must share the buffer of a parameter has its shape, layout and memory space.",
    remedy="Write `may-alias`, or give both the same shape in `entry_computation_layout`.",
    hlo="""
        HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = s32[2] convert(x)
        }
    """,
)
DONOR_ALIASED = ErrorCode(
    "E2024",
    "A donated buffer is not aliased with an output as well.",
    remedy="Remove the entry of `buffer_donor` or that of `input_output_alias`.",
    hlo="""
        HloModule m, input_output_alias={ {}: (0, {}) }, buffer_donor={ (0, {}) }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] negate(x)
        }
    """,
)
ALIAS_BUFFER = ErrorCode(
    "E2025",
    "Aliases and donors name parameters and outputs that exist, and arrays in them.",
    remedy="Correct the parameter number; the index of a parameter or result that is an array is `{}`.",
    hlo="""
        HloModule m, buffer_donor={ (1, {}) }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] negate(x)
        }
    """,
)
