"""Annotations: threads, shardings, origins, composite calls, and the devices of collectives.

Codes E2030 to E2049: rules of the verifier.
"""

from xlapy.base.error_codes.code import ErrorCode

EXECUTION_THREAD = ErrorCode(
    "E2030",
    "A called computation runs on the execution thread of its caller, or on the thread that async-start names.",
    remedy="Give both the same `execution_thread`, or call through async-start.",
    hlo="""
        HloModule m
        f {
          ROOT x = f32[] parameter(0)
        }, execution_thread="other"
        ENTRY main {
          x = f32[] parameter(0)
          ROOT y = f32[] call(x), to_apply=f
        }
    """,
)
SHARDING_SHAPE = ErrorCode(
    "E2031",
    "A sharding has the tuple structure and the rank of the shape that it splits.",
    remedy="Give one sharding per array of a tuple, and one tile count per dimension.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[4] parameter(0), sharding={devices=[2,1]0,1}
        }
    """,
)
SHARDING_DEVICES = ErrorCode(
    "E2032",
    "A tiled sharding has at least two tiles, and names a different device, from 0 on, for each tile.",
    remedy="List as many devices as the product of the tile counts, each once.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[4] parameter(0), sharding={devices=[2]0,0}
        }
    """,
)
SHARDING_PARTS = ErrorCode(
    "E2033",
    "A sharding has the parts of its kind: tiles, a device, subgroups, or the axes of its mesh.",
    remedy="`{replicated}` takes no devices, `{maximal device=0}` one, and `{devices=[2,2]<=[4]}` one per tile.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[4] parameter(0), sharding={maximal}
        }
    """,
)
EQUAL_SHARDINGS = ErrorCode(
    "E2035",
    "A loop, the parameters of its computations and its body's root have one sharding, and so have a conditional and "
    "the roots of its branches.",
    remedy="Give the instructions that the message names the same sharding, or leave out one of the two.",
    hlo="""
        HloModule m
        f {
          ROOT x = f32[4] parameter(0), sharding={devices=[2]0,1}
        }
        g {
          ROOT x = f32[4] parameter(0)
        }
        ENTRY main {
          p = pred[] parameter(0)
          x = f32[4] parameter(1)
          ROOT y = f32[4] conditional(p, x, x), true_computation=f, false_computation=g, sharding={replicated}
        }
    """,
)
ORIGINAL_VALUE = ErrorCode(
    "E2040",
    "An original value has one array, which may be empty, for each array of the shape, in the same tuples.",
    remedy='Write `({"a"}, {})` for a tuple of two arrays, the second one without an origin.',
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[4] parameter(0), origin={({"a"}, {"b"})}
        }
    """,
)
COMPOSITE_CALL = ErrorCode(
    "E2041",
    "A composite call has a name, attributes that are a dictionary, and a version of at least 0.",
    remedy="Set the frontend attributes `composite.name`, `composite.attributes` and `composite.version`.",
    hlo="""
        HloModule m
        f {
          ROOT x = f32[] parameter(0)
        }
        ENTRY main {
          x = f32[] parameter(0)
          ROOT y = f32[] call(x), to_apply=f, is_composite=true
        }
    """,
)
GROUP_MEMBERS = ErrorCode(
    "E2042",
    "The groups of a collective have all replicas, partitions or devices of the module or run as members, each in one.",
    remedy="Add the missing members, each in a group of its own if it exchanges nothing; empty groups stand for all.",
    hlo="""
        HloModule m, replica_count=4
        sum {
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          ROOT z = f32[] add(x, y)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] all-reduce(x), replica_groups={{0,1}}, to_apply=sum
        }
    """,
)
PAIR_MEMBERS = ErrorCode(
    "E2043",
    "Source and target pairs name replicas, or partitions, of the module or run.",
    remedy="Count from 0, or raise `replica_count` or `num_partitions`.",
    hlo="""
        HloModule m, replica_count=2
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] collective-permute(x), source_target_pairs={{0,2}}
        }
    """,
)
LAYOUT_CONSTRAINTS = ErrorCode(
    "E2044",
    "All all-reduces of a module have the same `constrain_layout`.",
    remedy="Set the attribute on all of them, or on none.",
    hlo="""
        HloModule m
        sum {
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          ROOT z = f32[] add(x, y)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          y = f32[2] all-reduce(x), to_apply=sum, constrain_layout=true
          ROOT z = f32[2] all-reduce(y), to_apply=sum
        }
    """,
)
