"""TCP Vegas in Python, from RoVegas, section 2.1, Eq. (1), with evenkeel's deviations
(docs/deviations.md). Its windows are those of `vegas`.

    python testbed/python/examples/vegas.py
"""

import math

import evenkeel


class Vegas(evenkeel.Controller):
    """TCP Vegas: keeps alpha to beta packets queued"""

    slow_start_threshold = None  # It begins in slow start.

    def __init__(self, mtu, alpha=1.0, beta=3.0, gamma=1.0):
        super().__init__(mtu)
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.phase = "hold"  # Slow start doubles the window every other round.
        self.base_rtt = (True, math.inf)  # Of large packets if there was one.

    def diff(self, rtt_s):
        """Packets that wait in queues, by this round trip."""
        return self.window * (rtt_s - self.base_rtt[1]) / (self.mtu * rtt_s)

    def avoid_congestion(self, window):
        self.window = self.slow_start_threshold = max(int(window), 2 * self.mtu)
        self.phase = "avoid"

    def on_ack(self, ack):
        if self.phase == "double" and not ack.app_limited:
            self.window += ack.bytes_after_recovery
            if self.slow_start_threshold is not None and self.window >= self.slow_start_threshold:
                self.avoid_congestion(self.slow_start_threshold)

    def on_round(self, round):
        self.base_rtt = min(self.base_rtt, (round.small, round.rtt_min_s))
        if round.in_recovery or round.app_limited:
            return
        in_use = round.unused <= 2 * self.mtu
        if self.phase == "double":
            self.phase = "hold"
        elif self.phase == "hold" and self.diff(round.rtt_end_s) > self.gamma:
            self.avoid_congestion(self.window * 7 / 8)
        elif self.phase == "hold":
            self.phase = "double" if in_use else "hold"
        elif self.diff(round.rtt_min_s) > self.beta:
            self.window = max(self.window - self.mtu, 2 * self.mtu)
        elif self.diff(round.rtt_min_s) < self.alpha and in_use:
            self.window += self.mtu

    def on_congestion(self, event):
        self.avoid_congestion(self.window / 2)

    def on_persistent_congestion(self):
        super().on_persistent_congestion()
        self.phase = "hold"


if __name__ == "__main__":
    evenkeel.register("my-vegas", Vegas)
    scenario = {
        "name": "vegas-in-python",
        "duration_s": 30,
        "warmup_s": 5,
        "topology": "dumbbell",
        "links": [{"name": "link", "rate_bps": 10e6, "delay_ms": 20, "queue_packets": 80}],
        "flows": [{"name": "flow", "app": "bulk", "controller": "my-vegas"}],
    }
    print(evenkeel.compare(scenario, ["my-vegas", "vegas", "cubic"]))
