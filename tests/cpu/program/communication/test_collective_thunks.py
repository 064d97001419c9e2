"""Collectives on cpu: what the interpreter's tests say holds of native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_collectives import *  # noqa: F403
