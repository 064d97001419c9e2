"""Custom calls by C conventions on cpu: the tests of the interpreter, run on native programs."""

from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_custom import *  # noqa: F403
