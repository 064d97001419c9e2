"""The logger and its level."""

import logging
import subprocess
import sys

import pytest

from xlapy.base.logging import configure, logger


@pytest.fixture
def untouched():
    """Restores the logger after a test."""
    handlers, level = logger.handlers[:], logger.level
    logger.handlers.clear()
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.usefixtures("untouched")
def test_levels():
    assert logger is logging.getLogger("xlapy")
    configure("debug")
    assert logger.level == logging.DEBUG
    configure("35")
    assert logger.level == 35
    assert len(logger.handlers) == 1
    configure("")
    assert logger.level == 35


@pytest.mark.usefixtures("untouched")
def test_an_unknown_level_warns(caplog):
    configure("loud")
    assert "XLAPY_LOG=loud is not a log level; the levels are critical" in caplog.text


def test_importing_base_is_light_and_reads_the_environment():
    program = (
        "import sys, time, numpy; start = time.process_time(); import xlapy.base; "
        "from xlapy.base.logging import logger; logger.info('hello'); "
        "heavy = {'jax', 'jaxlib', 'scipy', 'llvmlite'} & set(sys.modules); "
        "print(time.process_time() - start, heavy)"
    )
    best = 9.0
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"XLAPY_LOG": "info", "PYTHONPATH": "."},
        )
        assert "INFO xlapy: hello" in run.stderr
        seconds, heavy = run.stdout.split(maxsplit=1)
        assert heavy.strip() == "set()"
        best = min(best, float(seconds))
    assert best < 0.15
