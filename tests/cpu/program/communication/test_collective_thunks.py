"""Collectives on cpu: the tests of the interpreter, run on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_collectives import *  # noqa: F403
