"""One flow's congestion controller as an environment of Gymnasium (the extra ``gym``).

An agent acts once a round trip: it sees what the round was like, and answers with a factor for the
window or with a rate. The rest of the scenario runs as ever: real QUIC, other flows, cross traffic.

    env = evenkeel.gym.FlowEnv(scenario, flow="mine")
    observation, info = env.reset(seed=1)
    while True:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        if truncated:
            break
    print(info["result"])

The same scenario, seed and actions give the same observations.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import queue
import threading
import weakref
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from . import _native
from ._controller import Controller, described
from ._result import needs
from ._run import run
from ._scenario import AnyScenario, mapping, source, whole, within

with needs("gymnasium"):
    import gymnasium

#: What an observation has, in order.
OBSERVATION = (
    "round trip of the round / least so far",
    "round trip at its end / least so far",
    "delivery rate / highest so far",
    "lost bytes / (acknowledged + lost bytes)",
    "log2 of the window in packets",
    "packets acknowledged in the round / window",
)

#: How long a run that nobody needs may take to end, in seconds, before it is interrupted: another
#: controller in Python may never answer.
_PATIENCE_S = 1.0

#: The smallest window in packets (RFC 9002, section 7.2), and the largest that may be allowed.
LEAST_PACKETS, MOST_PACKETS = 2, 2**20

#: The least rate of an action and the greatest that one may have, Mb/s of UDP payload.
LEAST_RATE_MBPS, MOST_RATE_MBPS = 0.01, 1_000_000


class _Closed(Exception):
    """The environment needs the run no longer."""


class FlowEnv(gymnasium.Env):
    """The controller of one flow of a scenario.

    ``flow`` names a ``[[flows]]`` table with ``app = "bulk"`` and a count of 1, the first such one
    without it. ``action`` is ``"factor"``: a number from 0.5 to 2 by which the window is
    multiplied; or ``"rate"``: Mb/s of UDP payload, from 0.01 to ``max_rate_mbps``, at which packets
    leave, with a window of two round trips at that rate. The window stays between two packets and
    ``max_packets``. ``set`` overrides values, as for ``evenkeel.run``.

    ``reward`` takes the round's facts, a dict: ``rate_bps`` (acknowledged bits per second),
    ``rtt_s``, ``least_rtt_s``, ``loss`` (a share), ``window_packets``. Without it the reward is
    log2 of the rate in Mb/s, less log2 of the round trip over the least one, less ten times the
    share that was lost: half a queue of a round trip costs about as much as it gains.

    An observation has six numbers, which ``OBSERVATION`` names. The episode ends, truncated, with
    the run's duration; ``info["result"]`` is then the run's ``evenkeel.Result``. ``info`` always
    has ``now_s`` and the facts above. What ends the run with an error raises it in ``step``.
    Ctrl-C ends the episode.
    """

    metadata: Dict[str, Any] = {"render_modes": []}
    #: The name of the flow that the agent controls.
    flow: str
    action_space: "gymnasium.Space[Any]"
    observation_space: "gymnasium.Space[Any]"

    def __init__(
        self,
        scenario: AnyScenario,
        flow: Optional[str] = None,
        *,
        action: str = "factor",
        max_rate_mbps: float = 1000.0,
        max_packets: int = 1000,
        reward: Optional[Callable[[Mapping[str, float]], float]] = None,
        set: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if action not in ("factor", "rate"):
            raise ValueError(f'action is {action!r}; write "factor" or "rate"')
        within("max_packets", whole("max_packets", max_packets), LEAST_PACKETS, MOST_PACKETS)
        within("max_rate_mbps", max_rate_mbps, LEAST_RATE_MBPS, MOST_RATE_MBPS)
        self._scenario = scenario
        names = [] if flow is None else [flow]
        flows = _native.compared_flows(source(scenario, set), {}, names)
        fitting = [(number, name) for number, name, is_one_bulk in flows if is_one_bulk]
        if not fitting:
            which = "no flow has it" if flow is None else f"flow {flow} has not"
            raise _native.ScenarioError(f'an agent needs app = "bulk" and count = 1; {which}')
        number, self.flow = fitting[0]
        self._set = {**mapping("set", set), f"flows.{number}.controller": "agent"}
        known = described({"agent": Controller})
        _, self._seed, _ = _native.check(source(scenario, self._set), known)
        self._action = action
        self._max_packets = max_packets
        self._reward = reward or _reward
        least, most = (0.5, 2.0) if action == "factor" else (LEAST_RATE_MBPS, max_rate_mbps)
        self._least, self._most = least, most
        self.action_space = gymnasium.spaces.Box(least, most, (1,), np.float32)
        high = np.array([np.inf, np.inf, 1.0, 1.0, 20.0, np.inf], dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(
            np.zeros(6, np.float32), high, dtype=np.float32
        )
        self._channel: Optional[_Channel] = None

    def reset(
        self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None
    ) -> Tuple[np.ndarray, Dict[str, Any]]:
        """Begins a run with ``seed``; without it first with that of the scenario, then with the one
        after that of the run before."""
        super().reset(seed=seed)
        self.close()
        chosen = self._seed if seed is None else seed
        self._seed = chosen + 1
        self._least_rtt_s, self._highest_rate = math.inf, 0.0
        self._channel = _Channel(self._scenario, chosen, self._set, self._action, self._max_packets)
        # The run ends with an environment that nobody has any more, and with the process.
        self._finalizer = weakref.finalize(self, self._channel.close)
        seen = self._channel.next()
        if seen is None:
            raise _native.ScenarioError(
                f"flow {self.flow} has no round trip in the whole run; give it more time, or data"
            )
        return self._observe(seen)[0], self._info(seen)

    def step(self, action: Any) -> Tuple[np.ndarray, float, bool, bool, Dict[str, Any]]:
        """Answers the round with ``action``, and waits for the next."""
        if self._channel is None or self._channel.ended:
            raise RuntimeError("the episode is over; call reset")
        value = np.asarray(action, dtype=np.float64)
        if value.size != 1 or not np.isfinite(value).all():
            raise ValueError(
                f"action is {action!r}; give one number, {self._least:g} to {self._most:g}"
            )
        seen = self._channel.next(min(max(value.item(), self._least), self._most))
        if seen is None:
            result = self._channel.result
            return self._last, 0.0, False, True, {**self._last_info, "result": result}
        observation, facts = self._observe(seen)
        return observation, float(self._reward(facts)), False, False, self._info(seen)

    def close(self) -> None:
        """Ends the run, if one is under way."""
        if self._channel is not None:
            self._finalizer.detach()
            self._channel.close()
            self._channel = None

    def _observe(self, seen: "_Seen") -> Tuple[np.ndarray, Dict[str, float]]:
        round, window, mtu, length_s = seen
        self._least_rtt_s = min(self._least_rtt_s, round.rtt_min_s)
        rate = round.bytes / length_s if length_s > 0 else 0.0
        self._highest_rate = max(self._highest_rate, rate)
        sent = round.bytes + round.lost
        facts = {
            "rate_bps": rate * 8,
            "rtt_s": round.rtt_min_s,
            "least_rtt_s": self._least_rtt_s,
            "loss": round.lost / sent if sent else 0.0,
            "window_packets": window / mtu,
        }
        self._last = np.array(
            [
                round.rtt_min_s / self._least_rtt_s,
                round.rtt_end_s / self._least_rtt_s,
                rate / self._highest_rate if self._highest_rate else 0.0,
                facts["loss"],
                math.log2(window / mtu),
                round.bytes / window,
            ],
            dtype=np.float32,
        )
        self._last_info = {"now_s": round.now_s, **facts}
        return self._last, facts

    def _info(self, seen: "_Seen") -> Dict[str, Any]:
        return dict(self._last_info)


#: A round, the window in bytes during it, the size of a packet, and the round's length in seconds.
_Seen = Tuple[_native.Round, float, int, float]


def _reward(facts: Mapping[str, float]) -> float:
    rate = max(facts["rate_bps"] / 1e6, 1e-3)
    return math.log2(rate) - math.log2(facts["rtt_s"] / facts["least_rtt_s"]) - 10 * facts["loss"]


class _Channel:
    """A run on a thread of its own, which waits at the end of each round for an answer."""

    def __init__(
        self,
        scenario: AnyScenario,
        seed: int,
        set: Mapping[str, Any],
        action: str,
        max_packets: int,
    ) -> None:
        # Ctrl-C leaves no lock of these held.
        self._seen: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._answers: "queue.SimpleQueue[Optional[float]]" = queue.SimpleQueue()
        self.ended = False
        self.result: Any = None
        self.agent: Optional[Controller] = None
        decided = {"channel": self, "action": action, "max_packets": max_packets}
        controllers = {"agent": type("Agent", (_Agent,), decided)}

        def work() -> None:
            with contextlib.suppress(_Closed):
                try:
                    self._seen.put(run(scenario, seed, set=set, controllers=controllers))
                except BaseException as error:  # It belongs to the thread that waits.
                    self._seen.put(error)

        self._thread = threading.Thread(target=work, name="evenkeel-flow", daemon=True)
        self._thread.start()

    def exchange(self, seen: _Seen) -> float:
        """In the run: hands a round over and waits for the answer."""
        self._seen.put(seen)
        answer = self._answers.get()
        if answer is None:
            raise _Closed
        return answer

    def next(self, answer: Optional[float] = None) -> Optional[_Seen]:
        """Answers the last round, if given, and returns the next; None when the run is over."""
        try:
            if answer is not None:
                self._answers.put(answer)
            seen = self._seen.get()
        except BaseException:  # Ctrl-C: a round that nobody has seen would get the next action.
            self.close()
            raise
        if isinstance(seen, tuple):
            return seen
        self.ended = True
        self._thread.join()
        if isinstance(seen, BaseException):
            raise seen
        self.result = seen
        return None

    def close(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._answers.put(None)
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            thread, error = ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_Closed)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
            self._thread.join(_PATIENCE_S)


class _Agent(Controller):
    """An agent outside decides"""

    channel: _Channel
    action: str
    max_packets: int

    def __init__(self, mtu: int) -> None:
        super().__init__(mtu)
        # The sender's is made first. The receiver's has no data to send.
        self.acts = self.channel.agent is None
        if self.acts:
            self.channel.agent = self
        self.began_s: Optional[float] = None
        self.window = min(self.window, self.max_packets * mtu)

    def __deepcopy__(self, memo: Any) -> "_Agent":
        return self

    def on_round(self, round: _native.Round) -> None:
        if not self.acts:
            return
        began_s = round.now_s - round.rtt_end_s if self.began_s is None else self.began_s
        self.began_s = round.now_s
        answer = self.channel.exchange((round, self.window, self.mtu, round.now_s - began_s))
        if self.action == "factor":
            window = self.window * answer
        else:
            self.pacing_rate = answer * 1e6 / 8
            window = 2 * self.pacing_rate * round.rtt_min_s
        self.window = min(max(window, LEAST_PACKETS * self.mtu), self.max_packets * self.mtu)
