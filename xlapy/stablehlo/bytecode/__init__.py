"""MLIR bytecode: portable artifacts (versions 0.9 to 1.20 of VHLO), read and written, and StableHLO itself, read."""

from xlapy.stablehlo.bytecode.reader import MAGIC, read_bytecode
from xlapy.stablehlo.bytecode.writer import write_bytecode

__all__ = ["MAGIC", "read_bytecode", "write_bytecode"]
