"""Passes.

Codes E5000 to E5099: the text of passes and their options, classes of passes, and what a pass guarantees.
"""

from xlapy.base.error_codes.code import ErrorCode

PASS_NAME = ErrorCode(
    "E5000",
    "A pass that is named is registered.",
    remedy="Correct the name; `xlapy opt --list-passes` shows all. Import the module that defines your own pass first.",
    python="from xlapy.passes import parse_passes; parse_passes('simplfy')",
)
PASS_LIST = ErrorCode(
    "E5001",
    "Passes are names separated by commas, with options in braces, and `fixpoint(...)` around those that repeat.",
    remedy="Write the list as in `inline-calls{depth=2},fixpoint(simplify,remove-dead-code)`.",
    python="from xlapy.passes import parse_passes; parse_passes('simplify{')",
)
PASS_OPTION = ErrorCode(
    "E5002",
    "An option of a pass is one that the pass has.",
    remedy="Use one of the options in the message.",
    python="from xlapy.passes import parse_passes; parse_passes('expand{opps=dot}')",
)
PASS_OPTION_VALUE = ErrorCode(
    "E5003",
    "The value of an option has the type of the option and is in its range.",
    remedy="Give a value as the message describes it.",
    python="from xlapy.passes import parse_passes; parse_passes('fixpoint{limit=0}(simplify)')",
)
EXPANDED_OPERATION = ErrorCode(
    "E5004",
    "An operation that `expand` is told to expand has an expansion.",
    remedy="Leave the operation out of the option `ops`; `xlapy ops` shows which ones can be expanded.",
    python="from xlapy.passes import parse_passes; parse_passes('expand{ops=add}')",
)
PASS_CLASS = ErrorCode(
    "E5010",
    "A pass is a dataclass with a name, a method `run(module)`, and a default for every option.",
    remedy="Decorate the class with `@dataclass`, and give each field a default.",
    python="""
        from xlapy.passes import register_pass
        @register_pass
        class Mine:
            name = "mine"
    """,
)
REGISTERED_NAME = ErrorCode(
    "E5011",
    "The name of a pass is words joined by hyphens, and no other pass has it.",
    remedy="Choose another name.",
    python="""
        from dataclasses import dataclass
        from xlapy.passes import register_pass
        @register_pass
        @dataclass
        class Simplify:
            name = "simplify"
            def run(self, module):
                return False
    """,
)
PASSES_END = ErrorCode(
    "E5020",
    "Rewrites, expansions and repeated passes come to an end.",
    remedy="Look for two rules that undo each other's changes; raise the limit if each change is progress.",
    python="""
        from dataclasses import dataclass
        from xlapy.passes import Fixpoint, Pipeline
        @dataclass
        class Rename:
            name = "rename"
            def run(self, module):
                module.name += "x"
                return True
        module = xla.parse_hlo("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
        repeated = Fixpoint(passes=(Rename(),), limit=3)
        Pipeline([repeated], check_changes=True).run(module)
    """,
)
REPORTED_CHANGE = ErrorCode(
    "E5021",
    "A pass returns whether it changed the module.",
    remedy="Return True exactly if the text of the module differs.",
    python="""
        from dataclasses import dataclass
        from xlapy.passes import Pipeline
        @dataclass
        class Nothing:
            name = "nothing"
            def run(self, module):
                return True
        module = xla.parse_hlo("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
        Pipeline([Nothing()], check_changes=True).run(module)
    """,
)
VALID_RESULT = ErrorCode(
    "E5022",
    "A pass leaves a module that the verifier accepts.",
    remedy="Correct the pass; the message names the rule that the module violates.",
    python="""
        from dataclasses import dataclass
        from xlapy.passes import Pipeline
        @dataclass
        class Damage:
            name = "damage"
            def run(self, module):
                root = module.entry_computation.root_instruction
                root.attributes = root.attributes.replace(dimensions=(5,))
                return True
        text = "HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[2] broadcast(x), dimensions={} }"
        Pipeline([Damage()], verify_each=True).run(xla.parse_hlo(text))
    """,
)
EXPANSION = ErrorCode(
    "E5030",
    "An expansion takes the static shapes, the element types and the uses that simpler operations can express.",
    remedy="Convert the operands, or run the program on a platform that has the operation.",
    why_no_example="the pass leaves the instruction as it is",
)
RESOLVED_DYNAMIC = ErrorCode(
    "E5031",
    "Each operation on dynamic dimensions can be computed on padded arrays whose sizes are separate values.",
    remedy="Use static shapes, or run the program on the platform interpreter.",
    python='''
        from xlapy.passes import Pipeline, parse_passes
        text = """HloModule m ENTRY e {
          x = f32[<=4] parameter(0)
          ROOT y = f32[<=4] all-gather(x), replica_groups={}, dimensions={0}
        }"""
        Pipeline(parse_passes("resolve-dynamic-dimensions")).run(xla.parse_hlo(text))
    ''',
)
