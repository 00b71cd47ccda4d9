"""Packets a second with a controller in Python that is called for every ACK, beside one in Rust.

python testbed/python/examples/speed.py
"""

import time

import evenkeel


class Little(evenkeel.Controller):
    """Reno, in little Python"""

    slow_start_threshold = None  # It begins in slow start.

    def on_ack(self, ack):
        if self.slow_start_threshold is None:
            self.window += ack.bytes_after_recovery
        else:
            self.window += ack.bytes_after_recovery * self.mtu / self.window

    def on_congestion(self, event):
        self.window = self.slow_start_threshold = max(self.window / 2, 2 * self.mtu)


SCENARIO = {
    "name": "speed",
    "duration_s": 20,
    "topology": "dumbbell",
    "links": [{"name": "link", "rate_bps": 100e6, "delay_ms": 20, "queue_packets": 400}],
    "flows": [{"name": "flow", "app": "bulk", "controller": "little"}],
}

if __name__ == "__main__":
    evenkeel.register("little", Little)
    for controller in ("little", "reno"):
        began = time.perf_counter()
        result = evenkeel.run(SCENARIO, set={"flows.0.controller": controller})
        took = time.perf_counter() - began
        packets = result.summary["packets_sent"]
        print(f"{controller}: {packets} packets in {took:.2f} s: {packets / took:,.0f} a second")
