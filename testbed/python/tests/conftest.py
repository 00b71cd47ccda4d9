"""What tests share: a short scenario, and the command line's program."""

import os
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).parents[3]

SCENARIO = {
    "name": "short",
    "duration_s": 6,
    "warmup_s": 1,
    "topology": "dumbbell",
    "sampling": {"interval_ms": 50},
    "links": [{"name": "bottleneck", "rate_bps": 5e6, "delay_ms": 10, "queue_packets": 40}],
    "flows": [
        {"name": "first", "app": "bulk", "controller": "cubic"},
        {"name": "second", "app": "bulk", "controller": "vegas", "start_s": 1},
    ],
}

TEXT = """
name = "text"
duration_s = 3
topology = "dumbbell"
[[links]]
name = "bottleneck"
rate_bps = "5M"
delay_ms = 10
[[flows]]
name = "only"
app = "bulk"
controller = "reno"
"""


def skip(why):
    """Skips a test that lacks something; fails where nothing may be skipped."""
    if os.environ.get("EVENKEEL_NOTHING_SKIPPED"):
        pytest.fail(f"skipped: {why}")
    pytest.skip(why)


@pytest.fixture
def program():
    """The program evenkeel-testbed of this version."""
    built = ROOT / "target/debug/evenkeel-testbed"
    found = (
        os.environ.get("EVENKEEL_TESTBED")
        or (built.exists() and built)
        or shutil.which("evenkeel-testbed")
    )
    if not found:
        skip("there is no evenkeel-testbed; build it with cargo build -p evenkeel-testbed")
    return str(found)


@pytest.fixture(autouse=True)
def registry():
    """Each test has the registered names to itself."""
    from evenkeel import _controller

    before = dict(_controller._registered)
    yield
    _controller._registered.clear()
    _controller._registered.update(before)
