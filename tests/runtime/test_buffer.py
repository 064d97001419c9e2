"""`Buffer` behaves like the array that it holds."""

from __future__ import annotations

import weakref

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.base.shape import Shape
from xlapy.runtime.buffer import Buffer


@pytest.fixture
def buffer() -> Buffer:
    return Buffer(np.array([[1, 2, 3], [4, 5, 6]], np.float32))


def test_description(buffer: Buffer):
    assert (buffer.shape, buffer.dtype, buffer.ndim, buffer.size) == ((2, 3), np.float32, 2, 6)
    assert buffer.xla_shape == Shape.parse("f32[2,3]{1,0}")
    assert repr(buffer) == "Buffer(f32[2,3], [[1. 2. 3.]\n [4. 5. 6.]])"


def test_numpy_reads_it_without_a_copy(buffer: Buffer):
    assert np.shares_memory(np.asarray(buffer), buffer.array)
    assert np.asarray(buffer, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(buffer), buffer.array)
    assert np.array_equal(buffer + np.float32(1), buffer.array + 1)


def test_dlpack_reads_it_without_a_copy(buffer: Buffer):
    taken = np.from_dlpack(buffer)
    assert np.shares_memory(taken, buffer.array)
    assert buffer.__dlpack_device__() == (1, 0)


def test_buffers_are_immutable(buffer: Buffer):
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(buffer)[0] = 1


def test_numbers():
    assert float(Buffer(np.array(2.5, np.float32))) == 2.5
    assert int(Buffer(np.array(7, np.int32))) == 7
    assert bool(Buffer(np.array(False))) is False
    assert Buffer(np.array([3], np.int8)).item() == 3
    with pytest.raises(ValueError, match="size 1"):
        Buffer(np.zeros(2)).item()


def test_sequences(buffer: Buffer):
    assert len(buffer) == 2
    assert np.array_equal(buffer[1], [4, 5, 6])
    assert [row.tolist() for row in buffer] == [[1, 2, 3], [4, 5, 6]]


def test_types_of_ml_dtypes():
    buffer = Buffer(np.array([1.5], ml_dtypes.bfloat16))
    assert buffer.xla_shape == Shape.parse("bf16[1]{0}")
    assert np.asarray(buffer).dtype == ml_dtypes.bfloat16


def test_jax_accepts_buffers(buffer: Buffer):
    assert np.array_equal(jnp.asarray(buffer), buffer.array)


def test_a_finalizer_of_an_array_may_delete_another_buffer():
    """Deleting a buffer drops its array, whose finalizers run within the deletion."""
    client = xla.Client("cpu")
    first, second = client.device_put(np.ones(3)), client.device_put(np.ones(3))
    weakref.finalize(np.asarray(first), second.delete)
    first.delete()
    assert first.is_deleted() and second.is_deleted()
