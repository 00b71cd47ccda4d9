import copy
import json
import pathlib
import pickle
import sys
import threading
import traceback

import evenkeel
import numpy as np
import pytest
from conftest import ROOT, SCENARIO

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from vegas import Vegas  # noqa: E402


class Fixed(evenkeel.Controller):
    """A fixed window"""

    def __init__(self, mtu, packets=20, share=1.0, paced=False):
        super().__init__(mtu)
        self.window = packets * mtu * share
        if paced:
            self.pacing_rate = 50_000

    def on_persistent_congestion(self):
        pass


def one(controller, **more):
    """A flow alone."""
    flows = [{"name": "only", "app": "bulk", "controller": controller}]
    return {**SCENARIO, "flows": flows, **more}


NETWORKS = [
    {},
    {
        "links": [
            {"name": "l", "rate_bps": 20e6, "delay_ms": 40, "queue_packets": 30, "loss": 0.002}
        ]
    },
    {"links": [{"name": "l", "rate_bps": 2e6, "delay_ms": 5, "queue_packets": 4}]},
    {
        "links": [
            {
                "name": "l",
                "rate_bps": 8e6,
                "delay_ms": 15,
                "discipline": "red:ecn=true",
                "queue_packets": 60,
            }
        ]
    },
    {
        "links": [
            {
                "name": "l",
                "rate_bps": 8e6,
                "delay_ms": 15,
                "jitter_ms": 8,
                "blackouts": [{"start_s": 3, "length_s": 2}],
            }
        ]
    },
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_vegas_in_python_has_the_windows_of_ours(network, count):
    scenario = one("vegas", duration_s=20, **network)
    scenario["flows"][0]["count"] = count
    ours = evenkeel.run(scenario, seed=5)
    theirs = evenkeel.run(
        scenario, seed=5, set={"flows.0.controller": "mine"}, controllers={"mine": Vegas}
    )
    for flow in ours.series:
        for key in ("window_bytes", "slow_start_threshold_bytes", "rate_bps", "rtt_ms"):
            np.testing.assert_array_equal(
                theirs.series[flow][key], ours.series[flow][key], err_msg=key
            )
    assert theirs.json.replace('"mine"', '"vegas"') == ours.json


def test_a_registered_controller_runs_beside_one_that_ships():
    evenkeel.register("fixed", Fixed)
    assert evenkeel.controllers()["fixed"] == "A fixed window"
    assert list(evenkeel.controllers())[0] == "keel"
    sets = {"flows.0.controller": "fixed:packets=10,share=0.5"}
    result = evenkeel.run(SCENARIO, set=sets)
    windows = result.series["first"]["window_bytes"]
    assert set(windows[20:]) == {6000}
    assert result.flows["second"]["controller"] == "vegas"
    assert result.flows["second"]["throughput_bps"] > 1e6


def test_a_pacing_rate_is_heeded():
    result = evenkeel.run(one("fixed:packets=1000,paced=true"), controllers={"fixed": Fixed})
    assert set(result.series["only"]["pacing_rate_bps"][20:]) == {400_000}
    assert 4e5 < result.flows["only"]["throughput_bps"] < 4.2e5


def run_with(**answers):
    """A run over a round trip of 60 ms with a controller that always answers this."""

    class Answers(evenkeel.Controller):
        def __init__(self, mtu):
            super().__init__(mtu)
            vars(self).update(answers)

        def on_persistent_congestion(self):
            pass

    links = [{"name": "l", "rate_bps": 100e6, "delay_ms": 30}]
    return evenkeel.run(one("answers", links=links), controllers={"answers": Answers})


@pytest.mark.parametrize(
    ("answers", "windows"),
    [
        ({}, 1.1),
        ({"slow_start_threshold": 0}, 1.1),
        ({"slow_start_threshold": 24_000}, 1.1),
        ({"slow_start_threshold": 24_001}, 2.0),
        ({"slow_start_threshold": None}, 2.0),
    ],
)
def test_a_window_is_paced_over_the_round_trip_unless_it_says_that_it_is_in_slow_start(
    answers, windows
):
    rate_bps = run_with(window=24_000, **answers).series["only"]["pacing_rate_bps"][-1]
    assert rate_bps / 8 * 0.06 / 24_000 == pytest.approx(windows, rel=0.02)


def test_a_window_below_a_packet_sends_less_than_one_a_round_trip():
    runs = [run_with(window=window) for window in (300, 600, 1200)]
    rates = [run.flows["only"]["throughput_bps"] for run in runs]
    # A packet has 1228 bytes on the wire.
    expected = [1.1 * share * 1228 * 8 / 0.06 for share in (0.25, 0.5)]
    assert rates[:2] == pytest.approx(expected, rel=0.05)
    # One in flight waits for its ACK.
    assert 0.7 < rates[2] / (1228 * 8 / 0.06) <= 1.01


@pytest.mark.parametrize("rate", [0, 0.0, 0.9, 1])
def test_a_rate_below_a_byte_a_second_is_one_and_not_none(rate):
    result = run_with(window=24_000, pacing_rate=rate)
    # A packet in 10 s.
    assert set(result.series["only"]["pacing_rate_bps"][20:]) == {960}
    assert result.summary["packets_sent"] < 100


def test_a_controller_that_resumes_goes_on_with_that_window_and_out_of_slow_start():
    for threshold, after in [(0, 0), (None, 50_000), (90_000, 50_000)]:
        controller = evenkeel.Controller(1200)
        controller.slow_start_threshold = threshold
        controller.resume(50_000)
        assert (controller.window, controller.slow_start_threshold) == (50_000, after)


def test_parameters_have_the_errors_of_controllers_that_ship():
    for spec, error in [
        ("fixed:packet=3", 'fixed has no parameter "packet": did you mean packets?'),
        ("fixed:packets=x", "fixed"),
        ("fixde", 'unknown controller "fixde": did you mean fixed?'),
    ]:
        with pytest.raises(evenkeel.ScenarioError, match="flow only: ") as raised:
            evenkeel.run(one(spec), controllers={"fixed": Fixed})
        assert error in str(raised.value)


def test_names_that_ship_and_classes_that_are_none_are_refused():
    with pytest.raises(evenkeel.ScenarioError, match="the testbed has a controller of this name"):
        evenkeel.register("cubic", Fixed)
    # A result's directory has the name.
    for name in ("a:b", "", "..", "-a", "ä", "a" * 65):
        with pytest.raises(evenkeel.ScenarioError, match="letters, digits"):
            evenkeel.register(name, Fixed)
    with pytest.raises(TypeError, match="no class that inherits"):
        evenkeel.register("mine", object)

    class Asks(evenkeel.Controller):
        def __init__(self, mtu, path):
            super().__init__(mtu)

    with pytest.raises(TypeError, match="parameter path needs a default"):
        evenkeel.register("asks", Asks)

    class Nameless(evenkeel.Controller):
        def __init__(self, mtu, packets=3, /):
            super().__init__(mtu)

    with pytest.raises(TypeError, match="parameter packets has no name for calls"):
        evenkeel.register("nameless", Nameless)

    class Great(evenkeel.Controller):
        def __init__(self, mtu, packets=10**400):
            super().__init__(mtu)

    with pytest.raises(TypeError, match="parameter packets has a default that no float holds"):
        evenkeel.register("great", Great)


def test_a_name_can_be_given_to_another_class():
    evenkeel.register("mine", Fixed)
    first = evenkeel.run(one("mine"))

    class Other(Fixed):
        def __init__(self, mtu):
            super().__init__(mtu, packets=4)

    evenkeel.register("mine", Other)
    assert evenkeel.run(one("mine")).series["only"]["window_bytes"][-1] == 4800
    assert first.series["only"]["window_bytes"][-1] == 24_000


class Records(evenkeel.Controller):
    """Halves at a loss, and keeps what it is told"""

    told = []

    def on_ack(self, ack):
        self.told.append(("ack", ack))
        self.window += ack.bytes_after_recovery * self.mtu / self.window

    def on_round(self, round):
        self.told.append(("round", round))

    def on_lost(self, loss):
        self.told.append(("lost", loss))

    def on_congestion(self, event):
        self.told.append(("congestion", event))
        self.window = max(self.window / 2, 2 * self.mtu)

    def on_path(self, sample):
        self.told.append(("path", sample))


def test_facts_come_in_order_with_their_units():
    Records.told = []
    link = {**SCENARIO["links"][0], "queue_packets": 10, "stamps": ["aqt"]}
    scenario = one("records", duration_s=10, links=[link])
    evenkeel.run(scenario, controllers={"records": Records})
    kinds = {kind for kind, _ in Records.told}
    assert kinds == {"ack", "round", "lost", "congestion", "path"}
    times = [fact.now_s for _, fact in Records.told]
    # Both ends' controllers are told; each in order of time, and the run is one.
    assert all(0 < time <= 10 for time in times)
    acks = [fact for kind, fact in Records.told if kind == "ack"]
    assert all(ack.rtt_s is None or 0.02 <= ack.rtt_s < 1 for ack in acks)
    assert all(ack.now_s - ack.sent_s >= 0.02 for ack in acks)
    rates = [ack.delivery_rate for ack in acks if ack.delivery_rate and ack.now_s > 2]
    # 5 Mb/s of IP packets.
    assert 4.5e6 / 8 < np.median(rates) < 5e6 / 8
    lost = sum(fact.bytes for kind, fact in Records.told if kind == "lost")
    events = [fact for kind, fact in Records.told if kind == "congestion"]
    assert events[0].cause == "loss"
    assert 0 < sum(event.lost for event in events) <= lost
    samples = [fact for kind, fact in Records.told if kind == "path"]
    assert max(sample.forward_queueing_s or 0 for sample in samples) > 0.001
    rounds = [fact for kind, fact in Records.told if kind == "round"]
    assert all(round.rtt_min_s <= round.rtt_end_s + 1e-9 for round in rounds)


def test_an_exception_ends_the_run_with_its_traceback():
    class Wrong(evenkeel.Controller):
        def on_round(self, round):
            if round.now_s > 2:
                self.divide(round)

        def divide(self, round):
            return round.bytes / 0

    with pytest.raises(ZeroDivisionError) as raised:
        evenkeel.run(one("wrong"), controllers={"wrong": Wrong})
    names = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert names[-2:] == ["on_round", "divide"]
    # The next run is sound.
    assert evenkeel.run(SCENARIO).flows["first"]["error"] is None


@pytest.mark.parametrize("value", [None, -1, float("nan"), "many", 1e17])
def test_a_window_that_is_none_is_refused(value):
    class Wrong(evenkeel.Controller):
        def on_congestion(self, event):
            pass

        def on_round(self, round):
            self.window = value

    with pytest.raises(ValueError, match="wrong: window is .*; give it a number of bytes"):
        evenkeel.run(one("wrong"), controllers={"wrong": Wrong})


def test_an_interrupt_ends_a_run():
    class Interrupts(evenkeel.Controller):
        def on_round(self, round):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evenkeel.run(one("interrupts"), controllers={"interrupts": Interrupts})


def test_properties_answer_and_a_seed_repeats_the_run():
    class Doubles(evenkeel.Controller):
        def __init__(self, mtu, seed=7):
            super().__init__(mtu)
            self.generator = np.random.default_rng(seed)

        @property
        def pacing_rate(self):
            return 600_000 * (0.5 + self.generator.random())

        def on_congestion(self, event):
            self.window = max(self.window / 2, 2 * self.mtu)

        def on_ack(self, ack):
            self.window += ack.bytes_after_recovery * self.mtu / self.window

    results = [
        evenkeel.run(one("doubles"), controllers={"doubles": Doubles}).json for _ in range(2)
    ]
    assert results[0] == results[1]
    assert json.loads(results[0])["flows"][0]["throughput_bps"] > 1e6


def test_marks_copy_the_controller_with_its_state():
    class Marked(Vegas):
        copies = 0

        def __deepcopy__(self, memo):
            Marked.copies += 1
            copy = type(self)(self.mtu)
            copy.__dict__.update(self.__dict__)
            return copy

    scenario = one("marked", links=NETWORKS[3]["links"])
    evenkeel.run(scenario, controllers={"marked": Marked}, set={"links.0.mark": 0.05})
    assert Marked.copies > 0


def test_the_page_names_every_function_and_the_version():
    text = (ROOT / "docs/python.md").read_text()
    for name in evenkeel.__all__:
        if name[0].islower():
            assert f"evenkeel.{name}" in text, name
    assert f"version = {{{evenkeel.__version__}}}" in text
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{evenkeel.__version__}"' in manifest


@pytest.mark.parametrize(
    ("hook", "meant"), [("on_loss", "did you mean on_lost?"), ("on_tick", "use one of on_ack")]
)
def test_a_method_that_nothing_calls_is_refused(hook, meant):
    wrong = type("Wrong", (evenkeel.Controller,), {hook: lambda self, fact: None})
    with pytest.raises(TypeError, match=f"nothing calls {hook}: ") as raised:
        evenkeel.register("wrong", wrong)
    assert meant in str(raised.value)


def test_a_method_that_does_nothing_when_it_is_called_is_refused():
    def generates(self, fact):
        yield

    async def awaits(self, fact):
        pass

    for call in ("on_ack", "on_mtu", "resume"):
        for function in (generates, awaits, 5):
            wrong = type("Wrong", (evenkeel.Controller,), {call: function})
            with pytest.raises(TypeError, match=f"{call} is .*; write a method"):
                evenkeel.register("wrong", wrong)


def test_a_controller_that_cannot_be_copied_is_told_what_it_keeps():
    class Logs(evenkeel.Controller):
        def __init__(self, mtu):
            super().__init__(mtu)
            self.log = threading.Lock()

    with pytest.raises(TypeError, match="logs: it cannot be copied: .*leave out files, locks"):
        evenkeel.run(one("logs"), controllers={"logs": Logs})


def test_a_controller_without_a_window_is_told_what_it_lacks():
    class Forgets(evenkeel.Controller):
        def __init__(self, mtu):
            self.mtu = mtu

    with pytest.raises(AttributeError, match=r"forgets: it has no window; call super"):
        evenkeel.run(one("forgets"), controllers={"forgets": Forgets})


def test_facts_show_what_they_have():
    Records.told = []
    evenkeel.run(one("records", duration_s=2), controllers={"records": Records})
    shown = {kind: repr(fact) for kind, fact in Records.told}
    assert shown["ack"].startswith("Ack(now_s=")
    assert "rtt_min_s=0.0" in shown["round"] and "app_limited=" in shown["round"]


def test_facts_can_be_made_copied_and_pickled():
    Records.told = []
    evenkeel.run(one("records", duration_s=2), controllers={"records": Records})
    for _, fact in Records.told[:50]:
        for copied in (copy.deepcopy(fact), pickle.loads(pickle.dumps(fact))):
            assert type(copied) is type(fact) and repr(copied) == repr(fact)
    loss = evenkeel.Loss(now_s=1.5, bytes=1200)
    assert repr(loss) == "Loss(now_s=1.5, bytes=1200)"


def test_a_controller_that_keeps_what_it_was_told_is_copied():
    class Keeps(evenkeel.Controller):
        def on_ack(self, ack):
            self.last = ack
            self.window += ack.bytes_after_recovery * self.mtu / self.window

        def on_congestion(self, event):
            self.window = max(self.window / 2, 2 * self.mtu)

    scenario = one("keeps", links=NETWORKS[3]["links"])
    result = evenkeel.run(scenario, controllers={"keeps": Keeps}, set={"links.0.mark": 0.05})
    assert result.flows["only"]["error"] is None


HOOKS = ["__init__", "on_ack", "on_round", "on_lost", "on_congestion", "on_path", "__deepcopy__"]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_call_may_raise(hook):
    def raises(self, told):
        raise LookupError(hook)

    wrong = type("Wrong", (evenkeel.Controller,), {hook: raises})
    with pytest.raises(LookupError, match=hook):
        evenkeel.run(one("wrong"), controllers={"wrong": wrong}, set={"links.0.loss": 0.05})


def test_an_interrupt_in_a_number_is_not_lost():
    class Slow:
        def __float__(self):
            raise KeyboardInterrupt

    class Answers(evenkeel.Controller):
        def on_round(self, round):
            self.window = Slow()

    with pytest.raises(KeyboardInterrupt):
        evenkeel.run(one("answers"), controllers={"answers": Answers})


def test_defaults_reach_the_class_as_they_are():
    given = []

    class Keeps(evenkeel.Controller):
        def __init__(self, mtu, below=-3, great=10**30, share=0.5):
            super().__init__(mtu)
            given.append((below, great, share))

    evenkeel.run(one("keeps:share=0.25"), controllers={"keeps": Keeps})
    assert set(given) == {(-3, 10**30, 0.25)}
    assert all(type(below) is int and type(great) is int for below, great, _ in given)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_within_a_run_is_refused(jobs):
    class Nested(evenkeel.Controller):
        def on_round(self, round):
            evenkeel.sweep(SCENARIO, {}, seeds=2, jobs=jobs)

    with pytest.raises(RuntimeError, match="a run within its own; begin it on another thread"):
        evenkeel.run(one("nested"), controllers={"nested": Nested})


@pytest.mark.parametrize("value", [0, 1, 9e15, 1e12])
@pytest.mark.parametrize("name", ["window", "pacing_rate"])
def test_the_smallest_and_greatest_answers_are_lived_with(name, value):
    class Extreme(evenkeel.Controller):
        def on_round(self, round):
            setattr(self, name, value)

    scenario = one("extreme", duration_s=4)
    result = evenkeel.run(scenario, controllers={"extreme": Extreme})
    assert result.flows["only"]["error"] is None
