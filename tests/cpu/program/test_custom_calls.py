"""Custom calls of Python targets on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.runtime.test_custom_calls import *  # noqa: F403
