"""Compile options: round trips, exchange with jaxlib in both directions, errors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from jax._src.lib import xla_client

from tests.raising import Wanted, raises
from xlapy.base.error_codes.formats import protos as codes
from xlapy.base.errors import ProtoError
from xlapy.base.shape import Shape
from xlapy.proto import CompileOptions
from xlapy.proto.messages import encode, message_class

WRITTEN = CompileOptions(
    num_replicas=2,
    num_partitions=3,
    device_assignment=((0, 1, 2), (3, 4, 5)),
    argument_layouts=(Shape.parse("f32[2,3]{0,1}"),),
    result_layout=Shape.parse("f32[3]{0}"),
    parameter_is_tupled_arguments=True,
    profile_version=7,
    env_option_overrides={"a": True, "b": "x", "c": 3, "d": 1.5},
    matrix_unit_operand_precision="highest",
    use_spmd_partitioning=True,
    use_shardy_partitioner=True,
    allow_spmd_sharding_propagation_to_output=(True, False),
    auto_spmd_partitioning_mesh_shape=(2, 3),
    memory_fitting_effort=0.5,
    fdo_profile=b"\x00profile",
)


def test_options_survive_the_message() -> None:
    assert CompileOptions.from_proto(WRITTEN.to_proto()) == WRITTEN
    assert CompileOptions.from_proto(CompileOptions().to_proto()) == CompileOptions()


def _devices(numbers: list[list[int]]) -> xla_client.DeviceAssignment:
    return xla_client.DeviceAssignment.create(np.array(numbers, np.int32))


def test_xla_reads_them() -> None:
    read = xla_client.CompileOptions.ParseFromString(WRITTEN.to_proto())
    assert (read.num_replicas, read.num_partitions, read.profile_version) == (2, 3, 7)
    assert read.parameter_is_tupled_arguments
    assert dict(read.env_option_overrides) == {"a": True, "b": "x", "c": 3, "d": 1.5}
    assert [shape.to_serialized_proto() for shape in read.argument_layouts] == [
        xla_client.Shape.array_shape(np.dtype(np.float32), (2, 3), (0, 1)).to_serialized_proto()
    ]
    build = read.executable_build_options
    assert build.use_spmd_partitioning and build.use_shardy_partitioner and not build.use_auto_spmd_partitioning
    assert build.memory_fitting_effort == 0.5
    assert build.device_assignment.serialize() == _devices([[0, 1, 2], [3, 4, 5]]).serialize()


def test_xla_s_own_are_read_and_written_again_with_its_debug_options() -> None:
    source = xla_client.CompileOptions()
    source.num_replicas, source.num_partitions = 1, 2
    source.device_assignment = _devices([[4, 1]])
    source.executable_build_options.debug_options.xla_cpu_enable_fast_math = True
    options = CompileOptions.from_proto(source.SerializeAsString())
    assert (options.num_partitions, options.device_assignment, options.device_ordinal) == (2, ((4, 1),), -1)
    again = xla_client.CompileOptions.ParseFromString(options.to_proto())
    assert again.SerializeAsString() == source.SerializeAsString()


def test_an_empty_message_means_one_device() -> None:
    options = CompileOptions.from_proto(b"")
    assert (options.num_replicas, options.num_partitions, options.device_assignment) == (1, 1, None)


def _assignment_of_other_size() -> bytes:
    message = message_class("CompileOptionsProto")()
    build = message.executable_build_options
    build.device_assignment.replica_count = 2
    build.device_assignment.computation_count = 1
    build.device_assignment.computation_devices.add(replica_device_ids=[0])
    return encode(message)


def _override_without_value() -> bytes:
    message = message_class("CompileOptionsProto")()
    message.env_option_overrides["xla_x"].SetInParent()
    return encode(message)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff\xff", (codes.PROTO_ENCODING, "2 bytes")),
        (_assignment_of_other_size(), (codes.COMPILE_OPTIONS, "2", "1", "lists 1", "[1]")),
        (_override_without_value(), (codes.PROTO_COUNT, "'xla_x'")),
        (b"\x50\x07", (codes.PROTO_VALUE, "matrix_unit_operand_precision 7")),
    ],
)
def test_refused_messages(data: bytes, expected: Wanted) -> None:
    with raises(ProtoError, *expected):
        CompileOptions.from_proto(data)


@pytest.mark.parametrize(
    "change",
    [
        {"device_ordinal": 1 << 70},
        {"matrix_unit_operand_precision": "best"},
        {"device_assignment": ((0, 1), (2,))},
        {"env_option_overrides": {"a": 1 << 70}},
    ],
)
def test_refused_options(change: dict[str, object]) -> None:
    with raises(ProtoError, codes.PROTO_FIELDS):
        dataclasses.replace(CompileOptions(), **change).to_proto()  # type: ignore[arg-type]
