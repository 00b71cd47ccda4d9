"""A bandit as congestion controller: once a round trip it chooses one of a few factors for the
window, by what each earned so far in this state of the queue (epsilon-greedy).

    pip install './testbed/python[gym]'
    python testbed/python/examples/bandit.py
"""

import numpy as np
from evenkeel.gym import FlowEnv
from random_agent import SCENARIO

FACTORS = (0.7, 0.95, 1.0, 1.05, 1.4)

#: Round trips over the least one at which the state changes.
QUEUES = (1.05, 1.2, 1.5, 2.0)


def state(observation):
    """How full the queue seems, 0 to 4."""
    return int(np.searchsorted(QUEUES, observation[0]))


def play(episodes, epsilon=0.1, rate=0.1):
    """The mean reward of each episode, and the result of the last."""
    env = FlowEnv(SCENARIO)
    generator = np.random.default_rng(1)
    values = np.zeros((len(QUEUES) + 1, len(FACTORS)))
    means, result = [], None
    for seed in range(1, episodes + 1):
        observation, info = env.reset(seed=seed)
        rewards, truncated = [], False
        while not truncated:
            here = state(observation)
            explores = generator.random() < epsilon
            arm = generator.integers(len(FACTORS)) if explores else values[here].argmax()
            observation, reward, _, truncated, info = env.step([FACTORS[arm]])
            # The next round trip shows what the factor did.
            values[here, arm] += rate * (reward - values[here, arm])
            rewards.append(reward)
        means.append(sum(rewards) / len(rewards))
        result = info["result"]
    return means, result


if __name__ == "__main__":
    means, result = play(episodes=5)
    print("mean reward of each episode:", [round(mean, 3) for mean in means])
    print(result)
