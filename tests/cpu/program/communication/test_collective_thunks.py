"""Collectives on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_collectives import *  # noqa: F403
