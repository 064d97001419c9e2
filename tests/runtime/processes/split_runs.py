"""Programs of several devices, the same whether one process runs all devices or several do, as tests compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.element_types import ARRAY_TYPES
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import XlaError
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.runtime.backend import load_backend
from xlapy.runtime.collectives.process_group import ProcessGroup
from xlapy.runtime.device import Device
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules.collective_module import random_collective_module
from xlapy.testing.samples import collectives as collective_samples
from xlapy.testing.samples import transfer as transfer_samples


@dataclass(frozen=True)
class Case:
    """A program with the arguments of each device."""

    name: str
    module: Module
    arguments: Sequence[Sequence[Any]]

    @property
    def counts(self) -> tuple[int, int]:
        config = self.module.config
        return config.replica_count, config.num_partitions

    @property
    def device_count(self) -> int:
        replicas, partitions = self.counts
        return replicas * partitions


def sample_cases() -> Iterator[Case]:
    """Yields the samples of collectives and of transfers between devices, with random arguments."""
    for sample in (*collective_samples.SAMPLES, *transfer_samples.SAMPLES):
        module = xla.parse_hlo(sample.text)
        count = module.config.replica_count * module.config.num_partitions
        if count > 1:
            shapes = [parameter.shape for parameter in module.entry_computation.parameters]
            yield Case(sample.name, module, [random_arguments(shapes, seed) for seed in range(count)])


_RING = "{{0,1},{1,2},{2,3},{3,0}}"
_LOOP = """HloModule transfers_in_a_loop, replica_count=4
less { s = (s32[], f32[50000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[50000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0 x = f32[50000] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) k = token[] after-all()
  y = (f32[50000], u32[], token[]) send(x, k), PAIRS v = (f32[50000], u32[], token[]) recv(k), PAIRS
  e = token[] send-done(y) w = (f32[50000], token[]) recv-done(v) z = f32[50000] get-tuple-element(w), index=0
  u = f32[50000] add(z, x) ROOT r = (s32[], f32[50000]) tuple(j, u) }
ENTRY e { i = s32[] constant(0) x = f32[50000] parameter(0) s = (s32[], f32[50000]) tuple(i, x)
  w = (s32[], f32[50000]) while(s), condition=less, body=step
  ROOT r = f32[50000] get-tuple-element(w), index=1 }"""
_SEVERAL = """HloModule several_arrays, replica_count=4
ENTRY e { x = f32[3] parameter(0) b = pred[5] parameter(1) k = token[] after-all()
  t = (f32[3], pred[5]) tuple(x, b)
  v = ((f32[3], pred[5]), u32[], token[]) recv(k), PAIRS
  v2 = ((f32[3], pred[5]), u32[], token[]) recv(k), PAIRS
  s = ((f32[3], pred[5]), u32[], token[]) send(t, k), PAIRS
  y = f32[3] negate(x)
  t2 = (f32[3], pred[5]) tuple(y, b)
  sb = ((f32[3], pred[5]), u32[], token[]) send(t2, k), PAIRS
  w2 = ((f32[3], pred[5]), token[]) recv-done(v2)
  w = ((f32[3], pred[5]), token[]) recv-done(v)
  e = token[] send-done(s)
  e2 = token[] send-done(sb)
  a = (f32[3], pred[5]) get-tuple-element(w), index=0
  c = (f32[3], pred[5]) get-tuple-element(w2), index=0
  ROOT r = ((f32[3], pred[5]), (f32[3], pred[5])) tuple(a, c) }"""


def transfer_cases() -> Iterator[Case]:
    """Yields programs whose devices send to each other: in a loop, two messages at a time, and to some only."""
    for text, pairs in ((_LOOP, _RING), (_SEVERAL, _RING), (_SEVERAL, "{{0,3},{2,2}}"), (_LOOP, "{{1,0},{3,2}}")):
        module = xla.parse_hlo(
            text.replace("PAIRS", f'frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}')
        )
        shapes = [parameter.shape for parameter in module.entry_computation.parameters]
        yield Case(module.name + pairs, module, [random_arguments(shapes, seed) for seed in range(4)])


def random_cases(seeds: Iterable[int], devices: int = 8) -> Iterator[Case]:
    """Yields random programs of 8 devices: replicas, partitions, or both; of every element type that arrays have.

    Most draws are rounded, so that results depend on the order in which the members of a collective are combined. The
    arguments of every other program contain NaN, infinities and extremes.
    """
    for seed in seeds:
        partitions = (1, 2, 4, devices)[seed % 4]
        module = random_collective_module(
            seed,
            devices // partitions,
            partitions,
            element_types=ARRAY_TYPES,
            portable=False,
            asynchronous=seed % 3 == 0,
            exact=seed % 5 == 0,
        )
        shapes = [parameter.shape for parameter in module.entry_computation.parameters]
        is_special = seed % 2 == 1
        arguments = [random_arguments(shapes, devices * seed + k, special=is_special) for k in range(devices)]
        yield Case(module.name, module, arguments)


def run_alone(case: Case, platform: str = "cpu") -> list[list[bytes]] | str:
    """Returns the bits of the results of each device in one process, or the error."""
    try:
        program = xla.Client(platform, devices=case.device_count, single_process=True).compile(
            case.module, *case.counts
        )
        return [_bits(result) for result in program.execute_sharded(case.arguments)]
    except XlaError as error:
        return str(error.code)


def run_split(
    case: Case,
    topology: ProcessTopology,
    group: ProcessGroup,
    platform: str = "cpu",
    *,
    by_engine: bool = True,
    first_id: int = 0,
) -> list[list[bytes]] | str:
    """Returns the bits of the results of the devices of a process, or the error.

    by_engine: whether the engine runs the program, if it can. first_id: the global id of the first device. Devices of a
    program that has failed run nothing more.
    """
    try:
        verify(case.module)
        program: Any = load_backend(platform).compile(case.module, *case.counts, topology=topology)
        program.connect(group, range(first_id, first_id + case.device_count))
        devices = [Device(number, platform) for number in topology.local_devices]
        if hasattr(program, "bind"):
            program.bind(devices)
        rows = [case.arguments[device] for device in topology.local_devices]
        if by_engine and program.sharded_fast_path is not None:
            results = program.sharded_fast_path(rows)
        else:
            results = program.execute_sharded(rows, devices)
        return [_bits(result) for result in results]
    except XlaError as error:
        return str(error.code)


def contiguous(device_count: int, process_count: int, index: int) -> ProcessTopology:
    """The topology in which each process has consecutive devices, as many as the others."""
    return ProcessTopology(index, tuple(d * process_count // device_count for d in range(device_count)))


def interleaved(device_count: int, process_count: int, index: int) -> ProcessTopology:
    """The topology in which consecutive devices belong to different processes."""
    return ProcessTopology(index, tuple(d % process_count for d in range(device_count)))


def _bits(result: Any) -> list[bytes]:
    if isinstance(result, tuple):
        return [bits for element in result for bits in _bits(element)]
    array = np.asarray(result) if hasattr(result, "__array__") else None
    return [b"token" if array is None else array.tobytes()]


def differences(case: Case, topology: ProcessTopology, whole: Any, own: Any) -> list[str]:
    """Returns what the results of the local devices differ in from those of one process."""
    if isinstance(whole, str) or isinstance(own, str):
        is_alike = whole == own or (isinstance(whole, str) and own == str(codes.PROCESS_FAILED))
        return [] if is_alike else [f"{case.name}: {own if isinstance(own, str) else 'no error'}, alone {whole}"]
    return [
        f"{case.name}: other bits on device {device}, {topology}"
        for device, bits in zip(topology.local_devices, own, strict=True)
        if bits != whole[device]
    ]
