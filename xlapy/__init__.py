"""XLA in Python: build, read, check, print and run HLO programs.

The names below load on first use, so that `import xlapy` costs little more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlapy.hlo.conversions import register_conversion

if TYPE_CHECKING:
    import xlapy.base.errors as errors
    import xlapy.distributed as distributed
    import xlapy.opcodes as opcodes
    import xlapy.ops as ops
    from xlapy.base.element_types import PrimitiveType
    from xlapy.base.errors import XlaError
    from xlapy.base.layout import Layout
    from xlapy.base.literal import Literal
    from xlapy.base.program_shape import ProgramShape
    from xlapy.base.shape import Shape
    from xlapy.builder import ResultAccuracy, XlaBuilder, XlaComputation, XlaOp
    from xlapy.builder.contraction import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
    from xlapy.builder.core.channels import ChannelHandle, ChannelType
    from xlapy.builder.core.padding import Padding
    from xlapy.builder.indexing import GatherDimensionNumbers, ScatterDimensionNumbers
    from xlapy.custom_calls.ffi.api import ffi_api
    from xlapy.custom_calls.native import custom_call_status_functions
    from xlapy.custom_calls.registry import (
        register_custom_call_target,
        register_custom_call_type,
        unregister_custom_call_target,
    )
    from xlapy.hlo.computation import Computation
    from xlapy.hlo.instruction import Instruction
    from xlapy.hlo.metadata import OpMetadata
    from xlapy.hlo.module import Module
    from xlapy.hlo.sharding import Sharding
    from xlapy.opcodes.attributes.aliasing import OutputAlias
    from xlapy.opcodes.attributes.dimensions import (
        ConvDimensions,
        PaddingConfig,
        PaddingDimension,
        Precision,
        Window,
        WindowDimension,
    )
    from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
    from xlapy.opcodes.attributes.replica_groups import GroupList, IotaGroups, MeshGroups
    from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallSchedule, PaddingType
    from xlapy.opcodes.elementwise import ComparisonDirection, ComparisonType
    from xlapy.opcodes.linalg import FftType, Transpose
    from xlapy.opcodes.random import RandomAlgorithm
    from xlapy.runtime import Buffer, Client, Device, Executable, block_until_ready, register_backend
    from xlapy.stablehlo.parse import parse_stablehlo
    from xlapy.text import PrintOptions, parse_hlo

    __version__: str

__all__ = [
    "AxisRef",
    "Buffer",
    "ChannelHandle",
    "ChannelType",
    "Client",
    "ComparisonDirection",
    "ComparisonType",
    "Computation",
    "ConvDimensions",
    "CustomCallApiVersion",
    "CustomCallSchedule",
    "Device",
    "DotDimensionNumbers",
    "Executable",
    "FftType",
    "GatherDimensionNumbers",
    "GroupList",
    "Instruction",
    "IotaGroups",
    "Layout",
    "Literal",
    "Mesh",
    "MeshGroups",
    "Module",
    "OpMetadata",
    "OutputAlias",
    "Padding",
    "PaddingConfig",
    "PaddingDimension",
    "PaddingType",
    "Precision",
    "PrecisionConfig",
    "PrimitiveType",
    "PrintOptions",
    "ProgramShape",
    "RaggedDotDimensionNumbers",
    "RandomAlgorithm",
    "ResultAccuracy",
    "ScatterDimensionNumbers",
    "Shape",
    "Sharding",
    "Transpose",
    "Window",
    "WindowDimension",
    "XlaBuilder",
    "XlaComputation",
    "XlaError",
    "XlaOp",
    "block_until_ready",
    "custom_call_status_functions",
    "distributed",
    "errors",
    "ffi_api",
    "opcodes",
    "ops",
    "parse_hlo",
    "parse_stablehlo",
    "register_backend",
    "register_custom_call_target",
    "register_custom_call_type",
    "unregister_custom_call_target",
]

_LAZY_NAMES = {
    "AxisRef": "xlapy.opcodes.attributes.mesh",
    "Buffer": "xlapy.runtime",
    "ChannelHandle": "xlapy.builder.core.channels",
    "ChannelType": "xlapy.builder.core.channels",
    "Client": "xlapy.runtime",
    "ComparisonDirection": "xlapy.opcodes.elementwise",
    "ComparisonType": "xlapy.opcodes.elementwise",
    "Computation": "xlapy.hlo.computation",
    "ConvDimensions": "xlapy.opcodes.attributes.dimensions",
    "CustomCallApiVersion": "xlapy.opcodes.custom",
    "CustomCallSchedule": "xlapy.opcodes.custom",
    "Device": "xlapy.runtime",
    "DotDimensionNumbers": "xlapy.builder.contraction",
    "Executable": "xlapy.runtime",
    "FftType": "xlapy.opcodes.linalg",
    "GatherDimensionNumbers": "xlapy.builder.indexing",
    "GroupList": "xlapy.opcodes.attributes.replica_groups",
    "Instruction": "xlapy.hlo.instruction",
    "IotaGroups": "xlapy.opcodes.attributes.replica_groups",
    "Layout": "xlapy.base.layout",
    "Literal": "xlapy.base.literal",
    "Mesh": "xlapy.opcodes.attributes.mesh",
    "MeshGroups": "xlapy.opcodes.attributes.replica_groups",
    "Module": "xlapy.hlo.module",
    "OpMetadata": "xlapy.hlo.metadata",
    "OutputAlias": "xlapy.opcodes.attributes.aliasing",
    "Padding": "xlapy.builder.core.padding",
    "PaddingConfig": "xlapy.opcodes.attributes.dimensions",
    "PaddingDimension": "xlapy.opcodes.attributes.dimensions",
    "PaddingType": "xlapy.opcodes.custom",
    "Precision": "xlapy.opcodes.attributes.dimensions",
    "PrecisionConfig": "xlapy.builder.contraction",
    "PrimitiveType": "xlapy.base.element_types",
    "PrintOptions": "xlapy.text",
    "ProgramShape": "xlapy.base.program_shape",
    "RaggedDotDimensionNumbers": "xlapy.builder.contraction",
    "RandomAlgorithm": "xlapy.opcodes.random",
    "ResultAccuracy": "xlapy.builder",
    "ScatterDimensionNumbers": "xlapy.builder.indexing",
    "Shape": "xlapy.base.shape",
    "Sharding": "xlapy.hlo.sharding",
    "Transpose": "xlapy.opcodes.linalg",
    "Window": "xlapy.opcodes.attributes.dimensions",
    "WindowDimension": "xlapy.opcodes.attributes.dimensions",
    "XlaBuilder": "xlapy.builder",
    "XlaComputation": "xlapy.builder",
    "XlaError": "xlapy.base.errors",
    "XlaOp": "xlapy.builder",
    "block_until_ready": "xlapy.runtime",
    "custom_call_status_functions": "xlapy.custom_calls.native",
    "ffi_api": "xlapy.custom_calls.ffi.api",
    "parse_hlo": "xlapy.text",
    "parse_stablehlo": "xlapy.stablehlo.parse",
    "register_backend": "xlapy.runtime",
    "register_custom_call_target": "xlapy.custom_calls.registry",
    "register_custom_call_type": "xlapy.custom_calls.registry",
    "unregister_custom_call_target": "xlapy.custom_calls.registry",
}
"""The module that defines each name that loads on first use."""

_LAZY_MODULES = {
    "distributed": "xlapy.distributed",
    "errors": "xlapy.base.errors",
    "opcodes": "xlapy.opcodes",
    "ops": "xlapy.ops",
}

register_conversion("to_text", "xlapy.text.printer", "module_to_text")
register_conversion("to_proto", "xlapy.proto", "to_proto")
register_conversion("from_proto", "xlapy.proto", "from_proto")
register_conversion("to_html", "xlapy.text.html", "module_to_html")
register_conversion("clone", "xlapy.hlo.edit", "clone_module")
register_conversion("to_stablehlo", "xlapy.stablehlo.export", "to_stablehlo")


if not TYPE_CHECKING:  # type checkers read the imports above, and report unknown names

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            value = import_module(_LAZY_MODULES[name])
        elif name == "__version__":
            value = import_module("xlapy.base.version").VERSION
        elif name in _LAZY_NAMES:
            value = getattr(import_module(_LAZY_NAMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
