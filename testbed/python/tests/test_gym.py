import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import weakref

import evenkeel
import numpy as np
import pytest
from conftest import SCENARIO

gymnasium = pytest.importorskip("gymnasium")
from evenkeel.gym import OBSERVATION, FlowEnv  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))


def episode(env, seed, actions):
    """All that an episode shows, with actions drawn from a generator."""
    generator = np.random.default_rng(actions)
    observation, info = env.reset(seed=seed)
    seen = [(observation, 0.0)]
    truncated = False
    while not truncated:
        action = generator.uniform(0.7, 1.4, 1)
        observation, reward, terminated, truncated, info = env.step(action)
        assert not terminated
        assert env.observation_space.contains(observation)
        seen.append((observation, reward))
    return seen, info["result"]


def test_an_episode_follows_from_scenario_seed_and_actions():
    env = FlowEnv(SCENARIO, "first")
    one, result = episode(env, 3, 1)
    two, again = episode(env, 3, 1)
    assert result.json == again.json
    assert len(one) == len(two) > 50
    for (observation, reward), (other, other_reward) in zip(one, two):
        np.testing.assert_array_equal(observation, other)
        assert reward == other_reward
    assert len(one[0][0]) == len(OBSERVATION)
    _, other = episode(env, 3, 2)
    assert other.json != result.json
    assert result.flows["first"]["controller"] == "agent"
    assert result.flows["second"]["controller"] == "vegas"


def test_a_rate_is_what_the_flow_sends():
    env = FlowEnv(SCENARIO, "first", action="rate")
    env.reset(seed=1)
    truncated = False
    while not truncated:
        *_, truncated, info = env.step([1.0])
    assert 1.0e6 < info["result"].flows["first"]["throughput_bps"] < 1.06e6


def test_a_run_that_is_given_up_ends():
    env = FlowEnv(SCENARIO)
    env.reset(seed=1)
    env.step([1.0])
    env.reset(seed=2)
    env.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "evenkeel-flow"]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step([1.0])


@pytest.mark.parametrize("action", [[], None, [float("nan")], [1.0, 1.0]])
def test_an_action_that_is_none_is_refused_and_the_episode_goes_on(action):
    env = FlowEnv(SCENARIO)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="give one number, 0.5 to 2"):
        env.step(action)
    assert not env.step([1.0])[3]
    env.close()


def test_an_environment_that_nobody_has_any_more_ends_its_run():
    env = FlowEnv(SCENARIO)
    env.reset(seed=1)
    del env
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "evenkeel-flow"]


def test_an_episode_that_is_over_is_kept_no_longer_than_its_successor_begins():
    env = FlowEnv(SCENARIO)
    env.reset(seed=1)
    before = weakref.ref(env._channel)
    env.reset(seed=2)
    gc.collect()
    assert before() is None
    env.close()


INTERRUPTED = """
import signal, sys, threading, evenkeel
from evenkeel.gym import FlowEnv

class Stuck(evenkeel.Controller):
    def on_ack(self, ack):
        print("begun", flush=True)
        while True:
            pass

evenkeel.register("stuck", Stuck)
flows = [
    {"name": "agent", "app": "bulk", "controller": "keel"},
    {"name": "other", "app": "bulk", "controller": "stuck", "start_s": 1},
]
env = FlowEnv({
    "name": "short", "duration_s": 6, "topology": "dumbbell", "flows": flows,
    "links": [{"name": "l", "rate_bps": 5e6, "delay_ms": 10}],
})
signal.signal(signal.SIGINT, signal.default_int_handler)
env.reset(seed=1)
try:
    while True:
        env.step([1.0])
except KeyboardInterrupt:
    if sys.argv[1] == "raise":
        raise
    print([one.name for one in threading.enumerate()])
    try:
        env.step([1.0])
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize("how", ["catch", "raise"])
def test_an_interrupt_ends_an_episode_whose_other_controller_never_returns(how):
    words = [sys.executable, "-c", INTERRUPTED, how]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    if how == "raise":
        assert err.splitlines()[-1] == "KeyboardInterrupt"
    else:
        assert (out, err) == ("['MainThread']\nthe episode is over; call reset\n", "")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_an_interrupt_between_an_answer_and_the_next_round_ends_the_episode():
    class Interrupted:
        def __init__(self, answers):
            self.answers, self.get = answers, answers.get

        def put(self, answer):
            self.answers.put(answer)
            if answer is not None:
                raise KeyboardInterrupt

    env = FlowEnv(SCENARIO)
    env.reset(seed=1)
    env._channel._answers = Interrupted(env._channel._answers)
    with pytest.raises(KeyboardInterrupt):
        env.step([1.0])
    with pytest.raises(RuntimeError, match="the episode is over; call reset"):
        env.step([1.0])
    assert not [thread for thread in threading.enumerate() if thread.name == "evenkeel-flow"]


def test_gymnasium_finds_no_fault():
    from gymnasium.utils.env_checker import check_env

    check_env(FlowEnv(SCENARIO), skip_render_check=True)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match='write "factor" or "rate"'):
        FlowEnv(SCENARIO, action="window")
    with pytest.raises(evenkeel.ScenarioError, match='"third"'):
        FlowEnv(SCENARIO, "third")
    with pytest.raises(evenkeel.ScenarioError, match="dealy"):
        FlowEnv({**SCENARIO, "dealy": 1})


SHORT = {"arrivals_per_s": 2, "mean_bytes": 50_000}
ONOFF = {"on_s": 1, "off_s": 1}
STREAM = {"bitrate_bps": 1_000_000}


@pytest.mark.parametrize(
    "keys",
    [
        {"app": "short", "short": SHORT},
        {"app": "onoff", "onoff": ONOFF},
        {"app": "stream", "stream": STREAM},
        {"app": "tcp"},
        {"count": 2},
    ],
)
def test_a_flow_that_is_not_one_bulk_flow_is_refused(keys):
    other = {"name": "other", "app": "bulk", "controller": "cubic", **keys}
    alone = {**SCENARIO, "flows": [other]}
    for flow, what in ((None, "no flow has it"), ("other", "flow other has not")):
        with pytest.raises(evenkeel.ScenarioError, match=f"an agent needs app.*; {what}"):
            FlowEnv(alone, flow)
    if keys.get("app") != "tcp":
        assert FlowEnv({**SCENARIO, "flows": [other, *SCENARIO["flows"]]}).flow == "first"


@pytest.mark.parametrize("value", [0, -4, 1, 2**20 + 1, float("nan"), float("inf"), "7", None])
def test_a_limit_of_the_window_that_is_none_is_refused(value):
    with pytest.raises((ValueError, TypeError), match="max_packets is .*; (use|write) a"):
        FlowEnv(SCENARIO, max_packets=value)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "7", None])
def test_a_limit_of_the_rate_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="max_rate_mbps is .*; use a number from 0.01 to 1000000"):
        FlowEnv(SCENARIO, action="rate", max_rate_mbps=value)


@pytest.mark.parametrize("most", [2, 6])
def test_the_window_stays_within_its_limits(most):
    env = FlowEnv(SCENARIO, "first", max_packets=most)
    _, info = env.reset(seed=1)
    windows = {info["window_packets"]}
    for action in [2.0, 2.0, 0.5, 0.5, 0.5, 2.0]:
        windows.add(env.step([action])[4]["window_packets"])
    assert (min(windows), max(windows)) == (2, most)
    env.close()


def test_the_first_episode_has_the_seed_of_the_scenario():
    env = FlowEnv({**SCENARIO, "duration_s": 2, "seed": 77})
    seeds = []
    for given in (None, None, 5, None):
        env.reset(seed=given)
        truncated = False
        while not truncated:
            *_, truncated, info = env.step([1.0])
        seeds.append(info["result"].summary["seed"])
    assert seeds == [77, 78, 5, 6]


def test_the_bandit_ends_above_the_random_agent():
    import bandit
    import random_agent

    rewards, _ = bandit.play(episodes=3)
    random_rewards, _ = random_agent.play(episodes=1)
    assert rewards[-1] > random_rewards[-1]
