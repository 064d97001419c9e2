"""Records through which native code exchanges data with other processes.

A thread fills an `ExchangeRequest` and its array of `Transfer` records, then calls `post_exchange(transport, request)`,
a native function whose address the transport gives. The call returns at once, or after at most `DRIVE_NANOSECONDS` in
which it moves data itself. `start_exchange`, for asynchronous operations, always returns at once; a thread that waits
for such a request calls `drive_exchanges` before it sleeps. When all transfers are complete, the transport stores
`status` and then `value` into `word`, and wakes the threads that sleep on `word`. From then on the transport does not
access the request, its transfers, or their memory.

Each send matches the receive of the peer with the same clique, launch, exchange, step and tag. The order in which
requests are posted does not matter.

Responsible for the layouts. Does not depend on MPI, or on what the data means.
"""

from __future__ import annotations

from enum import IntEnum

from xlapy.native.records import Atomic, Owned, Record, Trailing
from xlapy.native.values import Address, Int32, Nullable, Word


class ExchangeStatus(IntEnum):
    """States of a request. Who fills the request stores PENDING; the transport stores the others.

    FAILED: the clique has failed; `Clique.failure` holds the error. The contents of received arrays are undefined.
    """

    PENDING = 0
    DONE = 1
    FAILED = 2


class ProgramIdentity(Record):
    """Tells programs apart in all processes. fingerprint: a hash of the program. name: 48 bytes of text, padded with
    zeros, which errors show."""

    fingerprint: Owned[Word]
    name: Trailing[Word]


PROGRAM_NAME_BYTES = 48
"""The size of `ProgramIdentity.name`. Longer names are cut off."""

PROGRAM_IDENTITY_BYTES = ProgramIdentity.byte_size() + PROGRAM_NAME_BYTES
"""The size of a `ProgramIdentity` with its name."""


class Transfer(Record):
    """Data that goes to another process or comes from it: `count` blocks of `block_bytes`, which begin every
    `stride_bytes` in memory. One contiguous block has a count of 1, and its stride does not matter.

    is_receive: 1 if the data comes from `peer`, 0 if it goes there. peer: the index of the other process. tag: tells
    the transfers between the same two processes in one request apart, per direction. address: of the first block. Null
    in a receive: the transport allocates memory, stores its address and size in `address` and `block_bytes` before the
    request completes, and the caller frees it with `free`.

    The other fields are the transport's: `state` is 0 in a new record.
    """

    is_receive: Owned[Word]
    peer: Owned[Word]
    tag: Owned[Word]
    address: Owned[Nullable[Address]]
    count: Owned[Word]
    block_bytes: Owned[Word]
    stride_bytes: Owned[Word]
    state: Owned[Word]
    operations: Owned[Word]
    staging: Owned[Nullable[Address]]


class Word32(Record):
    """A word on which threads sleep."""

    value: Atomic[Int32]


class ExchangeRequest(Record):
    """Transfers with other processes that complete together.

    clique: `Clique.address`. program: `Transport.program_identity`. launch: the number of the launch, from
    `begin_launch`. exchange: the instruction, and the group of devices if the processes execute it for several groups.
    step: how often this exchange was executed in the launch. transfers: the array of `transfer_count` records. word,
    value: what to store when the request completes, and to wake. status: an `ExchangeStatus`, stored before `word`.

    The other fields are the transport's.
    """

    clique: Owned[Nullable[Address]]
    program: Owned[Nullable[ProgramIdentity]]
    launch: Owned[Word]
    exchange: Owned[Word]
    step: Owned[Word]
    transfers: Owned[Nullable[Transfer]]
    transfer_count: Owned[Word]
    word: Owned[Nullable[Word32]]
    value: Owned[Int32]
    status: Atomic[Int32]
    remaining: Owned[Word]
    next: Owned[Nullable[ExchangeRequest]]
    failed_at: Owned[Word]
    holds: Owned[Word]
