"""Serialized programs, files and the command line.

Codes E7000 to E7399: values of flags, serialized programs, the compile cache, and files that commands read.
"""

from xlapy.base.error_codes.code import ErrorCode

FLAG_CHOICE = ErrorCode(
    "E7001",
    "The value of a flag is one of the values that the flag takes.",
    remedy="Give one of the values in the message.",
    command="""
        echo 'HloModule m ENTRY e { ROOT x = f32[] constant(1) }' > m.hlo
        XLAPY_FLAGS=--denormals=maybe xlapy run m.hlo
    """,
)

# -- serialized programs

SERIALIZABLE_PROGRAM = ErrorCode(
    "E7010",
    "A program that is serialized was compiled by cpu, checks no values or bounds, and calls no functions of the "
    "process.",
    remedy="Keep the text of the module, and compile it again.",
    python="""
        text = "HloModule m ENTRY e { ROOT x = f32[] parameter(0) }"
        xla.Client("interpreter").compile(text).serialize()
    """,
)
PLATFORM_OPTION = ErrorCode(
    "E7015",
    "The options of `compile` are ones that the platform has.",
    remedy="Leave the option out, or compile for cpu or the interpreter.",
    why_no_example="the platforms of xlapy have all options; back ends of other packages may lack some",
)
SERIALIZED_BYTES = ErrorCode(
    "E7011",
    "A serialized program, or a file of the compile cache, holds the parts that its header describes.",
    remedy="Write the file again; `xlapy cache clear` removes the files of the cache.",
    python="""
        from xlapy.base.container import pack
        xla.Client("cpu").deserialize(pack("executable", {}, []))
    """,
)
SERIALIZED_PLATFORM = ErrorCode(
    "E7012",
    "A serialized program is loaded on the platform that compiled it, for as many devices.",
    remedy="Load it with a client of that platform, or compile the module for this one.",
    python="""
        text = "HloModule m ENTRY e { ROOT x = f32[] parameter(0) }"
        data = xla.Client("cpu").compile(text).serialize()
        xla.Client("interpreter").deserialize(data)
    """,
)
SERIALIZED_COMPILER = ErrorCode(
    "E7013",
    "A serialized program is loaded by the version of xlapy that compiled it, with the same compiler.",
    remedy="Compile the program again.",
    why_no_example="another version is needed",
)
SERIALIZED_PROCESSOR = ErrorCode(
    "E7014",
    "The processor has the instructions that a serialized program uses.",
    remedy="Compile the program again on this machine, or with the flag `max_isa` of the oldest machine.",
    why_no_example="another processor is needed",
)

# -- folders and files

CACHE_FOLDER = ErrorCode(
    "E7020",
    "The folder of the compile cache belongs to the user of the process, and no other user may write to it.",
    remedy="Make a folder of your own with the mode 700.",
    why_no_example="a folder that others may write to is needed",
)
CACHE_IN_USE = ErrorCode(
    "E7021",
    "A command that shows or clears the cache has a folder of the cache.",
    remedy="Set XLAPY_FLAGS=--cache_dir=DIR, or give `--dir DIR`.",
    command="xlapy cache size",
)
ARRAY_FILE = ErrorCode(
    "E7022",
    "A file of arrays is a complete .npy or .npz file of numbers that fit in memory.",
    remedy="Write it with `np.save` or `np.savez`, without Python objects.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        echo 'no array' > x.npy
        xlapy run m.hlo --input x.npy
    """,
)
TUNING_FILE = ErrorCode(
    "E7023",
    "A tuning file can be read, and is in the format that this version writes.",
    remedy="Write it again with `xlapy tune`.",
    python="""
        text = "HloModule m ENTRY e { ROOT x = f32[] parameter(0) }"
        xla.Client("cpu").compile(text, tuning_file="nothing.json")
    """,
)
PROGRAM_FILE = ErrorCode(
    "E7025",
    "The file of a program is at most 1 GiB large, and has the format that its name or the command says.",
    remedy="Name the file by its format, or convert it: `xlapy convert --from FORMAT`.",
    python="""
        from xlapy.tools.formats import Format, read_module
        read_module("m.hlo", b"\\xff", Format.HLO)
    """,
)
STANDARD_INPUT = ErrorCode(
    "E7026",
    "Standard input is open, and is read for one program.",
    remedy="Give a file for the other program.",
    command="xlapy diff - -",
)
OUTPUT_FOLDER = ErrorCode(
    "E7027",
    "A command that writes a folder of results finds an empty one, or one of its own.",
    remedy="Give another folder with `-o`.",
    why_no_example="a fault has to be found first",
)

# -- commands

INPUT_FILES = ErrorCode(
    "E7030",
    "Input files hold one array per array of the parameters, infeeds included, in their order or by their names.",
    remedy="Save the arrays in the order of the parameters, or with their names in a .npz file.",
    command="""
        echo 'HloModule m ENTRY e { ROOT x = f32[2] constant({1, 2}) }' > one.hlo
        xlapy run one.hlo --save one.npz
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) z = f32[2] parameter(1) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy run m.hlo --input one.npz
    """,
)
INPUT_GIVEN = ErrorCode(
    "E7031",
    "A program that takes arguments gets them from files or at random.",
    remedy="Give `--input FILE` or `--random SEED`.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy run m.hlo
    """,
)
INPUT_UNUSED = ErrorCode(
    "E7032",
    "A program takes all values that are fed in.",
    remedy="Leave out the values that remain; the message lists them.",
    command="""
        echo 'HloModule m ENTRY e { ROOT x = f32[2] constant({1, 2}) }' > one.hlo
        xlapy run one.hlo --save one.npz
        echo 'HloModule m ENTRY e { t = token[] after-all() ROOT i = (f32[2], token[]) infeed(t) }' > m.hlo
        xlapy run m.hlo --infeed one.npz --infeed one.npz
    """,
)
SINGLE_DEVICE = ErrorCode(
    "E7033",
    "A program that is timed, tuned or compared runs on one device.",
    remedy="Run it with one replica and one partition.",
    command="""
        echo 'HloModule m, replica_count=2 ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy tune m.hlo --tuning-file plans.json
    """,
)
STATIC_SHAPES = ErrorCode(
    "E7034",
    "A program that is compared has no dynamic shapes.",
    remedy="Give its dimensions fixed sizes.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[<=2] parameter(0) ROOT y = f32[<=2] negate(x) }' > m.hlo
        xlapy run m.hlo --random 0 --platform cpu --compare interpreter
    """,
)
HOST_EXCHANGE = ErrorCode(
    "E7035",
    "A program that is bisected exchanges no data with the host, because it runs many times.",
    remedy="Remove infeeds, outfeeds and transfers to the host.",
    command="""
        echo 'HloModule m ENTRY e { t = token[] after-all() ROOT i = (f32[2], token[]) infeed(t) }' > m.hlo
        xlapy bisect m.hlo
    """,
)
REFERENCE_RESULT = ErrorCode(
    "E7036",
    "The reference of a comparison has a result.",
    remedy="Look at the error of the reference, which the message has, or compare with another one.",
    why_no_example="the interpreter has a result for each program that the samples show",
)
CHOICE = ErrorCode(
    "E7038",
    "A name that selects one of several things is among them.",
    remedy="Use one of the names in the message.",
    command="xlapy fuzz --seeds 0-1 --against nothing",
)
INTERESTING_PROGRAM = ErrorCode(
    "E7039",
    "The check of a reduction finds the program interesting before it is reduced.",
    remedy="Run the command of the check with the program, and look at its exit code and what it prints.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy reduce m.hlo --check 'false'
    """,
)
PASS_POSITION = ErrorCode(
    "E7040",
    "A position in the pipeline is that of one of its passes.",
    remedy="Use a position in the message.",
    why_no_example="commands give positions of passes only",
)
OPTIONAL_PACKAGE = ErrorCode(
    "E7041",
    "The packages that a command needs are installed.",
    remedy="Install them with the command that the message has.",
    why_no_example="a package has to be missing",
)
COMPILED_FOR_TIMING = ErrorCode(
    "E7042",
    "A command that times compilation uses no cache.",
    remedy="Unset the flag `cache_dir`.",
    why_no_example="a folder of the cache is needed",
)
DEMO_RESULT = ErrorCode(
    "E7043",
    "The demonstration trains a classifier to its target, and saved programs give its results again.",
    remedy="Report it: this is an error of xlapy, not of the program.",
    why_no_example="an error of the compiler has to exist",
)
WORKER = ErrorCode(
    "E7044",
    "A process that runs programs for a command answers.",
    remedy="Look at the end of what the process printed, which the message has.",
    why_no_example="a process has to die",
)
