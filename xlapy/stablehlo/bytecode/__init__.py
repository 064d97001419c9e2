"""MLIR bytecode: reads and writes portable artifacts (VHLO 0.9 to 1.20), and reads the StableHLO dialect itself."""

from xlapy.stablehlo.bytecode.reader import MAGIC, read_bytecode
from xlapy.stablehlo.bytecode.writer import write_bytecode

__all__ = ["MAGIC", "read_bytecode", "write_bytecode"]
