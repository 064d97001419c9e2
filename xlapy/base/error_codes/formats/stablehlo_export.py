"""Exporting StableHLO.

Codes E3800 to E3899: what a module has to be so that StableHLO can express it.
"""

from xlapy.base.error_codes.code import ErrorCode

EXPORTED_OPERATION = ErrorCode(
    "E3800",
    "StableHLO or CHLO has an operation for each instruction that is exported.",
    remedy="Expand the instruction first, as the pass `expand` does, or keep the program as HLO.",
    python="""
        text = "HloModule m ENTRY e { ROOT s = u64[2] rng-get-and-update-state(), delta=1 }"
        xla.parse_hlo(text).to_stablehlo()
    """,
)
EXPORTED_ATTRIBUTE = ErrorCode(
    "E3801",
    "StableHLO has an attribute for each attribute of an instruction that changes its result.",
    remedy="Remove the attribute, or write the instruction as several that StableHLO has.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[2] parameter(0)
          y = f32[2] parameter(1)
          ROOT z = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={high,high},
            algorithm=dot_f32_f32_f32
        }"""
        xla.parse_hlo(text).to_stablehlo()
    ''',
)
EXPORTED_TYPE = ErrorCode(
    "E3802",
    "StableHLO has a type for each shape that is exported.",
    remedy="Convert values to another element type.",
    python="""
        text = "HloModule m ENTRY e { ROOT x = opaque[] parameter(0) }"
        xla.parse_hlo(text).to_stablehlo()
    """,
)
EXPORTED_OPERANDS = ErrorCode(
    "E3803",
    "Both operands of a convolution that is exported have the same element type.",
    remedy="Convert one of the operands.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[1,4,1] parameter(0)
          y = bf16[1,1,1] parameter(1)
          ROOT z = bf16[1,4,1] convolution(x, y), window={size=1}, dim_labels=b0f_0io->b0f
        }"""
        xla.parse_hlo(text).to_stablehlo()
    ''',
)
EXPORTED_SIZE = ErrorCode(
    "E3804",
    "The copies of called computations, one for each caller, stay within a limit of depth and number.",
    remedy="Export before inlining is forced, or call a computation from fewer fusions, reductions and loops.",
    python="""
        branches = [
            f"f{i} {{ x = f32[] parameter(0) c = s32[] constant(0) "
            f"ROOT r = f32[] conditional(c, x), branch_computations={{f{i + 1}}} }}"
            for i in reversed(range(200))
        ]
        text = "HloModule m f200 { ROOT x = f32[] parameter(0) } " + " ".join(branches)
        text += " ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f0 }"
        xla.parse_hlo(text).to_stablehlo()
    """,
)
EXPORTED_ALIAS = ErrorCode(
    "E3805",
    "An alias of a custom call names arrays, not a whole tuple.",
    remedy="Give one alias for each element of the tuple.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[2] parameter(0)
          t = (f32[2], f32[2]) tuple(x, x)
          ROOT c = (f32[2], f32[2]) custom-call(t), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}
        }"""
        xla.parse_hlo(text).to_stablehlo()
    ''',
)
EXPORTED_START = ErrorCode(
    "E3807",
    "The result of an instruction that starts an operation is used by its done instruction only.",
    remedy="Read the elements after the done instruction.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[2] parameter(0)
          s = (f32[2], f32[2], u32[]) copy-start(x)
          d = f32[2] copy-done(s)
          ROOT g = f32[2] get-tuple-element(s), index=0
        }"""
        xla.parse_hlo(text, verify=False).to_stablehlo()
    ''',
)
