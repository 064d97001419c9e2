"""XLA in Python: build, read, check, print and run HLO programs.

The names below load on first use, so that `import xlapy` costs little more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlapy import ops
    from xlapy.base import errors
    from xlapy.base.element_types import PrimitiveType
    from xlapy.base.errors import XlaError
    from xlapy.base.layout import Layout
    from xlapy.base.literal import Literal
    from xlapy.base.program_shape import ProgramShape
    from xlapy.base.shape import Shape
    from xlapy.builder import ResultAccuracy, XlaBuilder, XlaComputation, XlaOp
    from xlapy.builder.channels import ChannelHandle, ChannelType
    from xlapy.builder.contraction import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
    from xlapy.builder.indexing import GatherDimensionNumbers, ScatterDimensionNumbers
    from xlapy.builder.padding import Padding
    from xlapy.hlo.instruction import OpMetadata
    from xlapy.hlo.module import Module
    from xlapy.hlo.sharding import Sharding
    from xlapy.interpreter.custom_native import custom_call_status_functions
    from xlapy.interpreter.custom_targets import (
        register_custom_call_target,
        register_custom_call_type,
        unregister_custom_call_target,
    )
    from xlapy.interpreter.ffi.api import ffi_api
    from xlapy.ops.aliasing import OutputAlias
    from xlapy.ops.custom import CustomCallApiVersion, CustomCallSchedule, PaddingType
    from xlapy.ops.dimensions import ConvDimensions, PaddingConfig, PaddingDimension, Precision, Window, WindowDimension
    from xlapy.ops.elementwise import ComparisonDirection, ComparisonType
    from xlapy.ops.linalg import FftType, Transpose
    from xlapy.ops.mesh import AxisRef, Mesh
    from xlapy.ops.random import RandomAlgorithm
    from xlapy.ops.replica_groups import GroupList, IotaGroups, MeshGroups
    from xlapy.runtime import Buffer, Client, Executable, register_backend
    from xlapy.stablehlo.parse import parse_stablehlo
    from xlapy.text import PrintOptions, parse_hlo

__version__ = "0.1.0"

__all__ = [
    "AxisRef",
    "Buffer",
    "ChannelHandle",
    "ChannelType",
    "Client",
    "ComparisonDirection",
    "ComparisonType",
    "ConvDimensions",
    "CustomCallApiVersion",
    "CustomCallSchedule",
    "DotDimensionNumbers",
    "Executable",
    "FftType",
    "GatherDimensionNumbers",
    "GroupList",
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
    "custom_call_status_functions",
    "errors",
    "ffi_api",
    "ops",
    "parse_hlo",
    "parse_stablehlo",
    "register_backend",
    "register_custom_call_target",
    "register_custom_call_type",
    "unregister_custom_call_target",
]

_HOMES = {
    "AxisRef": "xlapy.ops.mesh",
    "Buffer": "xlapy.runtime",
    "ChannelHandle": "xlapy.builder.channels",
    "ChannelType": "xlapy.builder.channels",
    "Client": "xlapy.runtime",
    "ComparisonDirection": "xlapy.ops.elementwise",
    "ComparisonType": "xlapy.ops.elementwise",
    "ConvDimensions": "xlapy.ops.dimensions",
    "CustomCallApiVersion": "xlapy.ops.custom",
    "CustomCallSchedule": "xlapy.ops.custom",
    "DotDimensionNumbers": "xlapy.builder.contraction",
    "Executable": "xlapy.runtime",
    "FftType": "xlapy.ops.linalg",
    "GatherDimensionNumbers": "xlapy.builder.indexing",
    "GroupList": "xlapy.ops.replica_groups",
    "IotaGroups": "xlapy.ops.replica_groups",
    "Layout": "xlapy.base.layout",
    "Literal": "xlapy.base.literal",
    "Mesh": "xlapy.ops.mesh",
    "MeshGroups": "xlapy.ops.replica_groups",
    "Module": "xlapy.hlo.module",
    "OpMetadata": "xlapy.hlo.instruction",
    "OutputAlias": "xlapy.ops.aliasing",
    "Padding": "xlapy.builder.padding",
    "PaddingConfig": "xlapy.ops.dimensions",
    "PaddingDimension": "xlapy.ops.dimensions",
    "PaddingType": "xlapy.ops.custom",
    "Precision": "xlapy.ops.dimensions",
    "PrecisionConfig": "xlapy.builder.contraction",
    "PrimitiveType": "xlapy.base.element_types",
    "PrintOptions": "xlapy.text",
    "ProgramShape": "xlapy.base.program_shape",
    "RaggedDotDimensionNumbers": "xlapy.builder.contraction",
    "RandomAlgorithm": "xlapy.ops.random",
    "ResultAccuracy": "xlapy.builder",
    "ScatterDimensionNumbers": "xlapy.builder.indexing",
    "Shape": "xlapy.base.shape",
    "Sharding": "xlapy.hlo.sharding",
    "Transpose": "xlapy.ops.linalg",
    "Window": "xlapy.ops.dimensions",
    "WindowDimension": "xlapy.ops.dimensions",
    "XlaBuilder": "xlapy.builder",
    "XlaComputation": "xlapy.builder",
    "XlaError": "xlapy.base.errors",
    "XlaOp": "xlapy.builder",
    "custom_call_status_functions": "xlapy.interpreter.custom_native",
    "ffi_api": "xlapy.interpreter.ffi.api",
    "parse_hlo": "xlapy.text",
    "parse_stablehlo": "xlapy.stablehlo.parse",
    "register_backend": "xlapy.runtime",
    "register_custom_call_target": "xlapy.interpreter.custom_targets",
    "register_custom_call_type": "xlapy.interpreter.custom_targets",
    "unregister_custom_call_target": "xlapy.interpreter.custom_targets",
}
"""The module that each lazy name is read from."""

_MODULES = {"errors": "xlapy.base.errors", "ops": "xlapy.ops"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
