"""Compiling for a platform.

Codes E5200 to E5399: limits of platforms, devices of a program, and what cannot be compiled.
"""

from xlapy.base.error_codes.code import ErrorCode

CALL_DEPTH = ErrorCode(
    "E5200",
    "Computations call each other at most as deep as the platform follows calls.",
    remedy="Inline computations (the pass `inline-calls`), or use a while loop.",
    python="""
        lines = ["HloModule m", "c0 { ROOT x = f32[] parameter(0) }"]
        for i in range(1, 5000):
            lines.append(f"c{i} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=c{i - 1} }}")
        lines.append("ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=c4999 }")
        xla.Client().compile("\\n".join(lines))
    """,
)
ARRAY_RANK = ErrorCode(
    "E5201",
    "Arrays of a program that is compiled have at most 32 dimensions.",
    remedy="Combine dimensions by a reshape.",
    python="""
        shape = "f32[" + "1," * 32 + "1]"
        xla.Client().compile("HloModule m ENTRY e { ROOT x = " + shape + " parameter(0) }")
    """,
)
ELIDED_CONSTANT = ErrorCode(
    "E5203",
    "The elements of all constants are known.",
    remedy="Print the program with `print_large_constants=True`, which writes them in place of `{...}`.",
    hlo="HloModule m ENTRY e { ROOT x = f32[100] constant({...}) }",
)
PROGRAM_SIZE = ErrorCode(
    "E5204",
    "A program, with a copy of a called computation for each of its calls, has at most 200,000 instructions.",
    remedy="Use a while loop in place of repeated calls.",
    python="""
        lines = ["HloModule m", "c0 { x = f32[] parameter(0) ROOT y = f32[] sine(x) }"]
        for i in range(1, 20):
            calls = f"y = f32[] call(x), to_apply=c{i - 1} ROOT z = f32[] call(y), to_apply=c{i - 1}"
            lines.append(f"c{i} {{ x = f32[] parameter(0) {calls} }}")
        lines.append("ENTRY e { x = f32[9] parameter(0) ROOT y = f32[9] map(x), dimensions={0}, to_apply=c19 }")
        xla.Client("cpu").compile("\\n".join(lines))
    """,
)
CODE_GENERATION_LIMITS = ErrorCode(
    "E5205",
    "LLVM generates the code of a function within the time and the memory that are allowed.",
    remedy="Raise the flags `compile_timeout` (seconds) and `compile_memory` (MiB), or split the computation.",
    why_no_example="the program would have to exceed the memory or the time of a machine",
)
FORKED_COMPILER = ErrorCode(
    "E5206",
    "A process compiles only if no thread of its parent compiled at the moment of the fork.",
    remedy="Start processes that compile by `spawn` or `forkserver`, or fork before threads compile.",
    why_no_example="the process has to be forked while a thread compiles",
)
HOST_MACHINE = ErrorCode(
    "E5207",
    "The platform cpu compiles for Linux on x86-64.",
    remedy="Use the platform interpreter on other machines.",
    why_no_example="another machine is needed",
)
ASYNC_HALF = ErrorCode(
    "E5208",
    "The start and the done of an asynchronous operation are in the same computation.",
    remedy="Move both instructions into one computation, or use the synchronous operation.",
    why_no_example="only a faulty pass makes such a program from one that is verified",
)
KERNEL_PLAN = ErrorCode(
    "E5209",
    "The strategy of a kernel plan, with its parameters, computes the instruction that has the plan.",
    remedy="Remove the plan, or choose another strategy; `xlapy explain` shows why each one is possible or not.",
    hlo="""
        HloModule m
        ENTRY e {
          x = f32[8] parameter(0)
          ROOT y = f32[8] negate(x), backend_config={"kernel_plan": {"strategy": "skinny-gemm"}}
        }
    """,
)
SHARDED_VALUE = ErrorCode(
    "E5210",
    "A program for several partitions is partitioned: no sharding splits a value.",
    remedy="Compile it with `use_spmd_partitioning=True`, which partitions it, or remove the shardings.",
    python="""
        text = "HloModule m, num_partitions=2 ENTRY e { ROOT x = f32[8] parameter(0), sharding={devices=[2]0,1} }"
        xla.Client(devices=2).compile(text)
    """,
)
LOWERED_INSTRUCTION = ErrorCode(
    "E5214",
    "The platform cpu has code for the operation and for the element types of an instruction.",
    remedy="Convert to another element type, or run the program on the platform interpreter.",
    why_no_example="the interpreter evaluates instructions for which cpu has no code",
)
BUFFER_ASSIGNMENT = ErrorCode(
    "E5220",
    "Each value is in memory until its last use.",
    remedy="Report it with the program: this is an error of the compiler, not of the program.",
    why_no_example="an error of the compiler has to exist",
)
LINEAR_ALGEBRA_LIBRARY = ErrorCode(
    "E5221",
    "The package scipy-openblas32 is installed if a program has linear algebra.",
    remedy="Install it: `pip install scipy-openblas32`.",
    why_no_example="the package has to be missing",
)
LAPACK_WORKSPACE = ErrorCode(
    "E5222",
    "The workspace of a routine of LAPACK has less than 2^31 elements.",
    remedy="Use smaller matrices.",
    why_no_example="the matrices would need many gigabytes",
)
