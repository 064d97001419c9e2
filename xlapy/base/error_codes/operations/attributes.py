"""Attributes.

Codes E1900 to E1999: the values of attributes, windows, replica groups and meshes of devices.
"""

from xlapy.base.error_codes.code import ErrorCode

ATTRIBUTE_INT64 = ErrorCode(
    "E1900",
    "An integer in an attribute fits into 64 bits.",
    remedy="Use a number from -2^63 to 2^63 - 1.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] reverse(x), dimensions={9223372036854775808}
        }
    """,
)
ATTRIBUTE_FORM = ErrorCode(
    "E1901",
    "The value of an attribute has the form that HLO text has for it.",
    remedy="Write the value in the form that the message shows.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] reverse(x), dimensions=0
        }
    """,
)
ATTRIBUTE_WORD = ErrorCode(
    "E1902",
    "A word in an attribute is one of the words that the attribute takes.",
    remedy="Write one of the words that the message lists.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = pred[2] compare(x, x), direction=ABOVE
        }
    """,
)
ATTRIBUTE_FIELDS = ErrorCode(
    "E1903",
    "An attribute has each field that it needs, and each field once.",
    remedy="Remove the repeated field, or add the missing one.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[1,1,4] parameter(0)
          k = f32[1,1,2] parameter(1)
          ROOT y = f32[1,1,3] convolution(x, k), window={size=2 size=2}, dim_labels=bf0_oi0->bf0
        }
    """,
)
WINDOW_ENTRIES = ErrorCode(
    "E1910",
    "Each field of a window has one entry for each dimension of the window.",
    remedy=("Write one entry per dimension, as in `size=2x3 stride=1x1`; leave out a field that has only defaults."),
    python="xla.Window.make([2, 2], strides=[1])",
)
WINDOW_POSITIVE = ErrorCode(
    "E1911",
    "The sizes, strides and dilations of a window are at least 1.",
    remedy="Use 1 for a dimension over which the window does not extend or move.",
)
GROUPS_OF_IOTA = ErrorCode(
    "E1920",
    "Replica groups `[groups,size]<=[...]` have positive sizes, and as many ids as their iota.",
    remedy="Give sizes whose product is the number of ids on the right.",
    hlo="""
        HloModule m, replica_count=4
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[4] all-gather(x), replica_groups=[2,2]<=[8], dimensions={0}
        }
    """,
)
IOTA_PERMUTATION = ErrorCode(
    "E1930",
    "Device ids `[a,b]T(...)` have a permutation of their dimensions.",
    remedy="Name each dimension from 0 once.",
    python="xla.IotaGroups.make(2, 4, (2, 4), (0, 0))",
)
DEVICE_COUNT = ErrorCode(
    "E1931",
    "The sizes of meshes and device lists are at least 1, and device ids at least 0.",
    remedy="Leave out axes without devices; `mesh[]` is the empty mesh.",
    python="xla.Mesh.make(['a'], [0])",
)
DEVICE_LIMIT = ErrorCode(
    "E1932",
    "Device ids that are listed are at most 2^20, a mesh has at most 128 axes, and a sharding names at most 1024 axes.",
    remedy="Merge axes that are always used together.",
    python="xla.IotaGroups.make(1, 2**21).groups",
)
MESH_AXES = ErrorCode(
    "E1933",
    "The axes of a mesh have one distinct name and one size each.",
    remedy="Rename an axis, or give a size for each name.",
    python="xla.Mesh.make(['a', 'a'], [2, 2])",
)
MESH_DEVICES = ErrorCode(
    "E1934",
    "The device ids of a mesh are 0 to n - 1 in some order, where n is the product of the axis sizes.",
    remedy="List each device once, or leave out the ids for the natural order.",
    python="xla.Mesh.make(['a'], [2], [0, 2])",
)
MESH_AXIS_NAME = ErrorCode(
    "E1940",
    "A reference to an axis names an axis of the mesh.",
    remedy="Use one of the names, or a number less than the number of axes.",
    hlo="""
        HloModule m, replica_count=2
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[4] all-gather(x), replica_groups=mesh['a'=2] {'b'}, dimensions={0}
        }
    """,
)
SUB_AXIS = ErrorCode(
    "E1941",
    "A sub-axis `'a':(pre)size` divides its axis into smaller parts: pre * size divides the axis, and "
    "size is at least 2 and less than the axis.",
    remedy=(
        "Give the extent before the sub-axis and its own size, as in `'a':(1)2` for the first factor of an axis of 4."
    ),
    hlo="""
        HloModule m, replica_count=4
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[6] all-gather(x), replica_groups=mesh['a'=4] {'a':(1)3}, dimensions={0}
        }
    """,
)
AXES_OVERLAP = ErrorCode(
    "E1942",
    "The axes and sub-axes that one sharding or list of groups names do not overlap.",
    remedy="Name each axis once, or split it into sub-axes that do not overlap, as in `'a':(1)2`.",
    hlo="""
        HloModule m, replica_count=2
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[4] all-gather(x), replica_groups=mesh['a'=2] {'a','a'}, dimensions={0}
        }
    """,
)
AXES_MERGED = ErrorCode(
    "E1943",
    "Adjacent parts of one axis are written as one part.",
    remedy="Merge `'a':(1)2,'a':(2)2` to `'a':(1)4`, or to `'a'` if this is the whole axis.",
    hlo="""
        HloModule m, replica_count=4
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[8] all-gather(x), replica_groups=mesh['a'=4] {'a':(1)2,'a':(2)2}, dimensions={0}
        }
    """,
)
