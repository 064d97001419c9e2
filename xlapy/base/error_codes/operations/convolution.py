"""Convolutions.

Codes E1250 to E1299: dimension numbers, kernels and groups.
"""

from xlapy.base.error_codes.code import ErrorCode

CONVOLUTION_RANK = ErrorCode(
    "E1250",
    "The operands of a convolution have a batch or feature dimension, a feature dimension, and the spatial dimensions.",
    remedy="Reshape the operand, or give `dim_labels` with as many spatial dimensions as it has.",
)
SPARSE_KERNEL = ErrorCode(
    "E1251",
    "A sparse kernel is a tuple of two arrays, values and positions, and stores one of every N elements.",
    remedy="Pass a dense kernel, or values and positions of 1xN sparsity.",
)
SPATIAL_DIMENSIONS = ErrorCode(
    "E1252",
    "The input, the kernel, the output and the window of a convolution have the same number of spatial dimensions.",
    remedy=("Give one entry of the window, and one label in each part of `dim_labels`, for each spatial dimension."),
)
CONVOLUTION_LABELS = ErrorCode(
    "E1253",
    "The dimension numbers of a convolution name each dimension of input, kernel and output once.",
    remedy=("Number the dimensions of each array from 0 without gaps; `dim_labels` text names each by one label."),
    python="""
        numbers = xla.ConvDimensions(0, 1, (1,), 1, 0, (2,), 0, 1, (2,))
        attributes = xla.opcodes.CONVOLUTION.attributes(window=xla.Window.make([2]), dim_labels=numbers)
        shapes = [xla.Shape.parse("f32[1,1,4]"), xla.Shape.parse("f32[1,1,2]")]
        xla.opcodes.CONVOLUTION.result_shape(shapes, attributes)
    """,
)
GROUP_COUNTS = ErrorCode(
    "E1254",
    "The group counts of a convolution are positive, and at most one of them is greater than 1.",
    remedy="Set the count that is not needed to 1.",
)
GROUP_COUNT_DIVIDES = ErrorCode(
    "E1255",
    "A group count of a convolution divides the sizes that it splits: the kernel's output features, and "
    "the input's batch or features.",
    remedy="Pad the dimension to a multiple of the group count, or change the count.",
)
INPUT_FEATURES = ErrorCode(
    "E1256",
    "The kernel has as many input features as the input has in one feature group.",
    remedy=(
        "Set `feature_group_count` to the input's features divided by the kernel's input features, or "
        "transpose the kernel."
    ),
)
KERNEL_WINDOW = ErrorCode(
    "E1257",
    "The sizes of the window of a convolution are the spatial sizes of the kernel.",
    remedy="Give the sizes that the message names; the builder's functions derive them.",
)
STATIC_OUTPUT_FEATURES = ErrorCode(
    "E1258",
    "The output feature dimension of a kernel is static.",
    remedy="Make another dimension dynamic, or pad the kernel to a static size.",
)
DIMENSION_LABEL_LIMIT = ErrorCode(
    "E1259",
    "A convolution has dimension numbers from 0 to 255.",
    remedy="Use fewer spatial dimensions.",
    python="xla.ConvDimensions.default(300)",
)
LABEL_TEXT = ErrorCode(
    "E1260",
    "The text of dimension numbers has a form such as `bf01_oi01->bf01`, with the batch, feature and "
    "spatial labels of each array.",
    remedy=(
        "Write the letters b and f (kernel: i and o) once, and the digits of the spatial dimensions from 0 upward."
    ),
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[1,1,4] parameter(0)
          k = f32[1,1,2] parameter(1)
          ROOT y = f32[1,1,3] convolution(x, k), window={size=2}, dim_labels=bf1_oi1->bf1
        }
    """,
)
