"""Collectives and transfers.

Codes E1700 to E1799: replica groups, collectives, infeed, outfeed, send, recv and copies.
"""

from xlapy.base.error_codes.code import ErrorCode

GROUPS_GIVEN = ErrorCode(
    "E1700",
    "A collective with `use_global_device_ids` has replica groups.",
    remedy="List the devices of each group.",
)
CHANNEL_GIVEN = ErrorCode(
    "E1701",
    "A collective with `use_global_device_ids` has a `channel_id`.",
    remedy="Give a `channel_id`: without one, ids are replicas.",
)
EMPTY_GROUP = ErrorCode(
    "E1702",
    "No replica group is empty.",
    remedy="Remove the empty group; `{}` alone stands for one group of all participants.",
)
GROUP_IDS = ErrorCode(
    "E1703",
    "Replica groups contain no id twice, and each one from 0 upward unless devices may be in no group.",
    remedy="Assign every participant to one group, or leave the groups empty.",
)
GROUP_SIZES = ErrorCode(
    "E1704",
    "All replica groups of a collective whose result depends on their size have the same size.",
    remedy="Use groups of equal size.",
)
PARTICIPANTS = ErrorCode(
    "E1705",
    "An id in replica groups is one of the participants: a replica, a partition or a device, depending on"
    " `channel_id` and `use_global_device_ids`.",
    remedy="Give ids that exist, or raise `replica_count` or `num_partitions` of the module.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[4] all-gather(x), replica_groups={{0,1}}, dimensions={0}
        }
    """,
)
SHARD_COUNT = ErrorCode(
    "E1706",
    "The number of shards that the shapes of a collective imply is the size of its groups.",
    remedy="Declare the dimension with its size multiplied (reduce-scatter: divided) by the group size.",
)
GROUP_SIZE_DIVIDES = ErrorCode(
    "E1707",
    "The dimension that a collective splits is a multiple of the number of participants.",
    remedy="Pad the dimension to a multiple of the group size.",
)
COLLECTIVE_REDUCER = ErrorCode(
    "E1708",
    "The computation of a collective takes two scalars and returns one, or takes N accumulators and N "
    "elements for N operands.",
    remedy="Declare scalar parameters; one computation of two scalars serves all operands.",
)
COLLECTIVE_RESULTS = ErrorCode(
    "E1709",
    "A collective of N operands returns N arrays.",
    remedy="Declare a tuple of one array for each operand; no tuple for one operand.",
)
START_SHAPE = ErrorCode(
    "E1710",
    "The start of an asynchronous collective returns (operands, results), and contexts after them where "
    "the operation has them.",
    remedy="Declare the tuple that the message names.",
)
DONE_OPERAND = ErrorCode(
    "E1711",
    "The done of an asynchronous collective takes the tuple (operands, results, ...) of its start.",
    remedy="Pass the result of the start.",
)
ROOT_OPERAND = ErrorCode(
    "E1712",
    "With `has_dynamic_root`, the last operand of a collective is an s32 vector with one root for each of"
    " the other operands, of which there is at least one.",
    remedy="Append the vector of roots to the operands.",
)
EXCHANGED_OPERANDS = ErrorCode(
    "E1713",
    "An all-to-all takes one operand if it splits a dimension, and one operand for each group member if not.",
    remedy="Give `dimensions` and one array, or as many arrays as a group has members.",
)
EXCHANGED_SHAPES = ErrorCode(
    "E1714",
    "The operands of an all-to-all have the same shape and layout.",
    remedy="Pad the operands to one shape.",
)
RAGGED_OFFSETS = ErrorCode(
    "E1715",
    "The offsets and sizes of a ragged-all-to-all have one shape, of rank 1 or 2, with one row for each member.",
    remedy="Give one row for each member of a group.",
)
PERMUTATION_PAIRS = ErrorCode(
    "E1720",
    "The `source_target_pairs` of a collective-permute are pairs of ids of at least 0.",
    remedy="Write pairs such as `{{0,1},{1,0}}`.",
)
PERMUTATION_ONCE = ErrorCode(
    "E1721",
    "An id is at most once a source and at most once a target of a collective-permute; with slices, once "
    "for each slice.",
    remedy="Use several collective-permutes, or an all-gather if one source has several targets.",
)
PERMUTATION_BUFFERS = ErrorCode(
    "E1722",
    "A collective-permute with `slice_sizes` takes four operands: the input, the output, and their "
    "offsets, with as many buffers in the input as in the output.",
    remedy="Pass input, output, input offsets and output offsets.",
)
PERMUTATION_OFFSETS = ErrorCode(
    "E1723",
    "The offsets of a collective-permute have one scalar for each dimension of each buffer.",
    remedy="Give a tuple of scalars for each buffer.",
)
INFEED_SHAPE = ErrorCode(
    "E1740",
    "An infeed returns (data, token[]), where data is an array or a tuple of arrays.",
    remedy="Declare a tuple of the data and a token; flatten nested tuples.",
)
OUTFEED_SHAPE = ErrorCode(
    "E1741",
    "The `outfeed_shape` of an outfeed is the shape of its operand.",
    remedy="Leave out `outfeed_shape`; only its layout may differ.",
)
TRANSFER_SHAPE = ErrorCode(
    "E1742",
    "A transfer in progress has the shape (buffer, u32[], token[]).",
    remedy="Pass the result of send or recv to send-done or recv-done; declare recv with this shape.",
)
COPY_SHAPE = ErrorCode(
    "E1743",
    "A copy in progress has the shape (destination, source, u32[]), with the same shape twice.",
    remedy="Pass the result of copy-start to copy-done.",
)
