"""StableHLO programs as HLO modules: one import rule an operation, in files by family.

`import_program` takes what the readers of text and bytecode give.
"""

from xlapy.stablehlo.importing.core.importer import import_program

__all__ = ["import_program"]
