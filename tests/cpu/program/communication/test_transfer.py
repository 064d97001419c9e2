"""Transfers on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_transfer import *  # noqa: F403
