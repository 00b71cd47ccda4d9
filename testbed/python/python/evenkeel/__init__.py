"""Real QUIC in virtual time: describe a network, write a congestion controller, have it scored.

A scenario is a dict, a TOML text, a file, or built by ``evenkeel.Scenario`` (docs/scenarios.md lists
the keys)::

    import evenkeel

    scenario = {
        "name": "first", "duration_s": 20, "warmup_s": 2, "topology": "dumbbell",
        "links": [{"name": "bottleneck", "rate_bps": 10e6, "delay_ms": 20, "queue_packets": 80}],
        "flows": [{"name": "mine", "app": "bulk", "controller": "keel"}],
    }
    result = evenkeel.run(scenario, seed=1)
    print(result)
    result.to_pandas("series"); result.plot()

A controller is a class; ``help(evenkeel.Controller)`` says what it is told and what it answers::

    class Mine(evenkeel.Controller):
        def on_round(self, round):
            self.window += self.mtu if round.rtt_min_s < 0.06 else -self.mtu

        def on_congestion(self, event):
            self.window /= 2

    evenkeel.register("mine", Mine)
    evenkeel.compare(scenario, ["mine", "cubic", "keel"], seeds=3)
    evenkeel.sweep(scenario, {"links.0.rate_bps": [5e6, 50e6]}, seeds=5, jobs=2)
    evenkeel.league({"mine": Mine}, quick=True)

``evenkeel.gym`` has one flow's controller as an environment for Gymnasium.

Units: ``_bps`` is bits of IP packets per second, ``_s`` and ``_ms`` are times. Controllers count
bytes of UDP payload, and seconds.
"""

from ._compare import Comparison, compare
from ._controller import Controller, controllers, register
from ._league import League, league
from ._native import (
    Ack,
    Congestion,
    Loss,
    PathSample,
    Round,
    ScenarioError,
    __version__,
)
from ._result import Result, versions
from ._run import run
from ._scenario import Scenario, to_toml
from ._sweep import Point, Sweep, sweep

__all__ = [
    "Ack",
    "Comparison",
    "Congestion",
    "Controller",
    "League",
    "Loss",
    "PathSample",
    "Point",
    "Result",
    "Round",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "__version__",
    "compare",
    "controllers",
    "league",
    "register",
    "run",
    "sweep",
    "to_toml",
    "versions",
]
