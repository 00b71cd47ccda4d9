"""An agent that multiplies the window by a random factor once a round trip.

pip install './testbed/python[gym]'
python testbed/python/examples/random_agent.py
"""

from evenkeel.gym import FlowEnv

SCENARIO = {
    "name": "agent",
    "duration_s": 20,
    "warmup_s": 2,
    "topology": "dumbbell",
    "links": [{"name": "link", "rate_bps": 10e6, "delay_ms": 20, "queue_packets": 80}],
    "flows": [{"name": "flow", "app": "bulk", "controller": "agent"}],
}


def play(episodes):
    """The mean reward of each episode, and the result of the last."""
    env = FlowEnv(SCENARIO)
    env.action_space.seed(1)
    means, result = [], None
    for seed in range(1, episodes + 1):
        _, info = env.reset(seed=seed)
        rewards, truncated = [], False
        while not truncated:
            _, reward, _, truncated, info = env.step(env.action_space.sample())
            rewards.append(reward)
        means.append(sum(rewards) / len(rewards))
        result = info["result"]
    return means, result


if __name__ == "__main__":
    means, result = play(episodes=3)
    print("mean reward of each episode:", [round(mean, 3) for mean in means])
    print(result)
