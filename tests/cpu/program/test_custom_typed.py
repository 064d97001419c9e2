"""Custom calls of the typed FFI on cpu: runs the interpreter's tests on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.custom_calls.test_typed import *  # noqa: F403
