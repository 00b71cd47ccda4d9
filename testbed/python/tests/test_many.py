import collections
import contextlib
import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import types

import evenkeel
import numpy as np
import pytest
from conftest import SCENARIO
from evenkeel._fingerprint import fingerprint


class Halves(evenkeel.Controller):
    """Adds a packet a round, halves at a loss"""

    increase = 1

    def on_round(self, round):
        self.window += self.increase * self.mtu

    def on_congestion(self, event):
        self.window = max(self.window / 2, 2 * self.mtu)


class Raises(evenkeel.Controller):
    def on_round(self, round):
        raise RuntimeError("it is wrong")


OVER = {"links.0.rate_bps": [2e6, 8e6], "flows.0.controller": ["halves", "cubic"]}


def test_a_sweep_does_not_depend_on_the_number_of_processes():
    evenkeel.register("halves", Halves)
    one = evenkeel.sweep(SCENARIO, OVER, seeds=2, jobs=1, set={"duration_s": 3})
    several = evenkeel.sweep(SCENARIO, OVER, seeds=2, jobs=3, set={"duration_s": 3})
    assert len(one) == 8
    assert [point.result.json for point in one] == [point.result.json for point in several]
    assert [point.seed for point in one[:2]] == [1, 2]
    assert one[0].values == {"links.0.rate_bps": 2e6, "flows.0.controller": "halves"}
    table = one.table()
    assert len(table["seed"]) == 16
    means = np.array([point.result.flows["first"]["throughput_bps"] for point in one])
    assert means[4:].min() > means[:4].max()


def test_a_sweep_is_checked_before_it_begins():
    with pytest.raises(evenkeel.ScenarioError, match="links.0.loss"):
        evenkeel.sweep(SCENARIO, {"links.0.loss": [0, 2]})
    with pytest.raises(ValueError, match="has no values"):
        evenkeel.sweep(SCENARIO, {"links.0.loss": []})


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_exception_in_a_process_comes_back(jobs):
    over = {"flows.0.controller": ["cubic", "raises"]}
    with pytest.raises(RuntimeError, match="it is wrong") as raised:
        evenkeel.sweep(SCENARIO, over, jobs=jobs, controllers={"raises": Raises})
    if jobs > 1:
        assert "on_round" in str(raised.value.__cause__)


def test_a_sweep_has_data_frames():
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    points = evenkeel.sweep(SCENARIO, {"links.0.loss": [0, 0.01]}, set={"duration_s": 2}, jobs=1)
    assert list(points.to_pandas()["links.0.loss"]) == [0, 0, 0.01, 0.01]
    assert points.to_polars("links").height == 4


def test_a_comparison_has_controllers_in_python_beside_those_that_ship(tmp_path):
    made = evenkeel.compare(
        SCENARIO,
        {"halves": Halves},
        against=["cubic"],
        seeds=2,
        jobs=2,
        flows=["first"],
        out=tmp_path,
    )
    assert {run["controller"] for run in made.summary["runs"]} == {"halves", "cubic"}
    assert made.summary["flows"] == ["first"]
    assert "smoothest:" in str(made)
    assert "halves" in (tmp_path / "comparison.html").read_text()
    text = (tmp_path / "comparison.json").read_text()
    assert json.loads(text) == made.summary
    with pytest.raises(
        evenkeel.ScenarioError, match='the name "third"; the scenario has first, second'
    ):
        evenkeel.compare(SCENARIO, ["cubic"], flows=["third"])


def test_a_comparison_replaces_a_controller_that_nobody_knows():
    sets = {"flows.0.controller": "mine", "flows.1.controller": "vegas:gama=1"}
    given = {"against": ["cubic"], "set": sets, "jobs": 1}
    made = evenkeel.compare(SCENARIO, {"halves": Halves}, **given)
    assert [run["controller"] for run in made.summary["runs"]].count("halves") == 1
    with pytest.raises(evenkeel.ScenarioError, match="vegas has no parameter"):
        evenkeel.compare(SCENARIO, {"halves": Halves}, flows=["first"], **given)
    made = evenkeel.compare(SCENARIO, "reno", set={"seed": 7}, jobs=1)
    assert made.summary["seeds"] == [7]


def test_a_text_is_one_name_or_value():
    assert len(evenkeel.sweep(SCENARIO, {"flows.0.controller": "cubic"}, jobs=1)) == 1
    made = evenkeel.compare(SCENARIO, "cubic", against="reno", flows="first")
    assert {run["controller"] for run in made.summary["runs"]} == {"cubic", "reno"}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: evenkeel.sweep(SCENARIO, {"links.0.loss": 0.1}), "links.0.loss is 0.1; write a"),
        (lambda: evenkeel.sweep(SCENARIO, [1]), "over is .*; write a dict"),
        (lambda: evenkeel.sweep(SCENARIO, {}, set="a=1"), "set is 'a=1'; write a dict"),
        (lambda: evenkeel.compare(SCENARIO, Halves), "controllers is .*; write a list"),
        (lambda: evenkeel.compare(SCENARIO, [Halves]), "is no name of a controller; write {name"),
        (lambda: evenkeel.league(["keel"], cases=5), "cases is 5; write a list"),
        (lambda: evenkeel.run(SCENARIO, controllers=["a"]), "controllers is .*; write a dict"),
    ],
)
def test_what_is_no_list_and_no_dict_is_refused_by_its_name(wrong, error):
    with pytest.raises(TypeError, match=error):
        wrong()


def test_a_comparison_and_a_league_of_nobody_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no controllers; give one at least"):
        evenkeel.compare(SCENARIO, [])
    with pytest.raises(ValueError, match="no controllers; give one at least"):
        evenkeel.league([], against=[], out=tmp_path)


class TwoWords(Exception):
    """Pickle makes it of one argument, and fails."""

    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def test_an_exception_that_cannot_be_pickled_keeps_its_words_and_traceback():
    class Local(Exception):
        pass

    for error in (Local("it is wrong"), TwoWords("it is", "wrong")):

        def raises(self, round, error=error):
            raise error

        wrong = type("Wrong", (evenkeel.Controller,), {"on_round": raises})
        sets = {"flows.0.controller": "wrong"}
        with pytest.raises(RuntimeError, match="it is wrong") as raised:
            evenkeel.sweep(SCENARIO, {}, seeds=2, jobs=2, set=sets, controllers={"wrong": wrong})
        assert type(error).__name__ in str(raised.value)
        assert "in raises" in str(raised.value.__cause__)


def test_a_process_that_dies_is_named():
    class Dies(evenkeel.Controller):
        def on_round(self, round):
            os._exit(3)

    sets = {"flows.0.controller": "dies"}
    with pytest.raises(RuntimeError, match="a process of the sweep was killed.*jobs=1"):
        evenkeel.sweep(SCENARIO, {}, seeds=2, jobs=2, set=sets, controllers={"dies": Dies})


def test_processes_that_are_no_forks_do_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    sets = {"duration_s": 2, "flows.0.controller": "halves"}
    made = [
        evenkeel.sweep(SCENARIO, {}, seeds=2, jobs=jobs, set=sets, controllers={"halves": Halves})
        for jobs in (1, 2)
    ]
    assert made[0][1].result.json == made[1][1].result.json
    played = evenkeel.league(
        {"halves": Halves}, against="cubic", cases=CASES, quick=True, jobs=2, out=tmp_path
    )
    assert len(list(tmp_path.glob("runs/*/*"))) == 4
    assert "halves" in str(played)


def test_threads_may_run_while_processes_begin():
    end = threading.Event()

    def work():
        while not end.is_set():
            evenkeel.run(SCENARIO, set={"duration_s": 2})

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    try:
        for _ in range(5):
            points = evenkeel.sweep(SCENARIO, {}, seeds=2, jobs=2, set={"duration_s": 2})
            assert len(points) == 2
    finally:
        end.set()
        [thread.join() for thread in threads]


CASES = ["start/100-kB", "start/1-MB"]


def test_a_league_scores_a_controller_in_python_on_the_same_page(tmp_path):
    played = evenkeel.league(
        {"halves": Halves}, against=["cubic"], cases=CASES, quick=True, jobs=2, out=tmp_path
    )
    table = played.table()
    totals = {
        name: score
        for name, group, score in zip(table["controller"], table["group"], table["score"])
        if group == "total"
    }
    assert set(totals) == {"halves", "cubic"}
    assert all(0 < score <= 1 for score in totals.values())
    page = played.page.read_text()
    assert "halves" in page and Halves.__doc__ in page
    assert "halves" in str(played)
    made = sorted(path.name for path in tmp_path.glob("runs/*/*"))
    assert len(made) == 4
    again = evenkeel.league(
        {"halves": Halves}, against=["cubic"], cases=CASES, quick=True, jobs=1, out=tmp_path
    )
    assert again.summary == played.summary
    assert sorted(path.name for path in tmp_path.glob("runs/*/*")) == made


def test_a_changed_controller_is_played_again(tmp_path):
    class Faster(Halves):
        increase = 2

    first = evenkeel.league(
        {"halves": Halves}, against=(), cases=CASES[:1], quick=True, jobs=1, out=tmp_path
    )
    second = evenkeel.league(
        {"halves": Faster}, against=(), cases=CASES[:1], quick=True, jobs=1, out=tmp_path
    )
    assert len(list(tmp_path.glob("runs/*/*"))) == 2
    assert first.summary["results"] != second.summary["results"]


def test_a_league_that_cannot_be_played_says_why(tmp_path):
    with pytest.raises(evenkeel.ScenarioError, match="nosuch"):
        evenkeel.league(["cubic"], cases="nosuch", out=tmp_path)
    with pytest.raises(RuntimeError, match="it is wrong"):
        evenkeel.league({"raises": Raises}, against=(), cases=CASES, quick=True, out=tmp_path)


def helper(window):
    return window / 2


def test_a_fingerprint_follows_code_attributes_and_helpers():
    class One(evenkeel.Controller):
        def on_round(self, round):
            self.window = helper(self.window)

    def same():
        class One(evenkeel.Controller):
            def on_round(self, round):
                self.window = helper(self.window)

        return One

    one = fingerprint([One])
    assert fingerprint([One]) == one
    assert fingerprint([same()]) == fingerprint([same()])
    global helper_before
    helper_before, globals()["helper"] = helper, lambda window: window / 3
    try:
        assert fingerprint([One]) != one
    finally:
        globals()["helper"] = helper_before
    One.factor = 3
    assert fingerprint([One]) != one


def methods_and_properties(last):
    class Several(evenkeel.Controller):
        def on_ack(self, ack):
            self.window += 1

        def on_lost(self, loss):
            self.window -= 1

        def on_round(self, round):
            self.window += last

        @property
        def one(self):
            return 1

        @property
        def other(self):
            return 1 if last == 1 else 2

    return Several


def holds(value):
    return type("Holds", (evenkeel.Controller,), {"held": value})


def test_a_fingerprint_follows_the_last_of_many_parts():
    for made in (
        lambda last: methods_and_properties(last),
        lambda last: holds([property(lambda self, value=value: value) for value in (1, 2, last)]),
    ):
        assert fingerprint([made(1)]) == fingerprint([made(1)])
        assert fingerprint([made(1)]) != fingerprint([made(2)])


@pytest.mark.parametrize(
    "made",
    [
        lambda last: np.full(3, last),
        lambda last: collections.deque([last]),
        lambda last: collections.OrderedDict(a=last),
        lambda last: functools.partial(max, last),
        lambda last: functools.lru_cache(lambda self: last),
        lambda last: types.SimpleNamespace(gain=last),
        lambda last: np.random.default_rng(last),
    ],
)
def test_a_fingerprint_follows_what_objects_hold(made):
    assert fingerprint([holds(made(1))]) == fingerprint([holds(made(1))])
    assert fingerprint([holds(made(1))]) != fingerprint([holds(made(2))])


def test_a_fingerprint_has_any_object_and_installed_packages_by_version(monkeypatch):
    class Odd(evenkeel.Controller):
        lock = threading.Lock()

        def on_round(self, round):
            later(np.mean([1.0]), json.dumps(self.window))

    one = fingerprint([Odd])
    assert fingerprint([Odd]) == one
    monkeypatch.setattr(np, "__version__", "0")
    assert fingerprint([Odd]) != one

    def later(*_):
        pass


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"seeds": -1}, {"seeds": []}, {"jobs": 0}])
def test_no_seeds_and_no_processes_are_refused(wrong):
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"{name} (=|is)"):
        evenkeel.sweep(SCENARIO, {"links.0.loss": [0]}, **wrong)
    with pytest.raises(ValueError, match=f"{name} (=|is)"):
        evenkeel.compare(SCENARIO, ["cubic"], **wrong)


INTERRUPTED = """
import os, signal, sys, evenkeel
# What a process has inherited must not keep it alive.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
scenario = {
    "name": "long", "duration_s": 20_000, "sampling": {"interval_ms": 500}, "topology": "dumbbell",
    "links": [{"name": "l", "rate_bps": 10e6, "delay_ms": 10}],
    "flows": [{"name": "f", "app": "bulk", "controller": "mine"}],
}

class Mine(evenkeel.Controller):
    def __init__(self, mtu):
        super().__init__(mtu)
        # The run is under way.
        os.write(1, b"begun\\n")

    def on_round(self, round):
        while sys.argv[3] == "stuck":
            pass

evenkeel.register("mine", Mine)
try:
    if sys.argv[1] == "run":
        evenkeel.run(scenario)
    elif sys.argv[1] == "sweep":
        # More than a pipe holds.
        long = [name * 1_000_000 for name in "abcdefgh"]
        evenkeel.sweep(scenario, {"description": long}, jobs=2)
    elif sys.argv[1] == "compare":
        evenkeel.compare(scenario, ["mine", "cubic"], jobs=2)
    else:
        evenkeel.league({"mine": Mine}, against=[], jobs=2, out=sys.argv[2])
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize("how", ["busy", "stuck"])
@pytest.mark.parametrize("whom", ["process", "terminal"])
@pytest.mark.parametrize("what", ["run", "sweep", "compare", "league"])
def test_an_interrupt_ends_all_processes_without_a_word(tmp_path, what, whom, how):
    def own_group():
        os.setsid()
        # A shell's background jobs ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    words = [sys.executable, "-c", INTERRUPTED, what, str(tmp_path), how]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=own_group
    )
    assert process.stdout.readline() == "begun\n"
    if whom == "process":
        process.send_signal(signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "ended"
    assert err == ""
    # None of its group is left.
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


WITHIN = """
import queue, signal
put, calls = queue.Queue.put, []

def interrupted(self, *words):
    calls.append(words)
    # From the second one on another thread wants the lock, too.
    if len(calls) == 2:
        self.mutex.acquire()
        signal.raise_signal(signal.SIGINT)
        self.mutex.release()
    put(self, *words)

queue.Queue.put = interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_an_interrupt_while_the_pool_holds_a_lock_ends_it(tmp_path):
    words = [sys.executable, "-c", WITHIN + INTERRUPTED, "sweep", str(tmp_path), "busy"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.communicate(timeout=60)[0].splitlines()[-1] == "ended"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_processes_end_with_the_one_that_began_them(tmp_path):
    words = [sys.executable, "-c", INTERRUPTED, "sweep", str(tmp_path), "stuck"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "begun\n"
    process.kill()
    try:
        # They have its standard output, too.
        process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_controllers_whose_results_would_be_one_directory_are_refused():
    class Mine(Halves):
        def __init__(self, mtu, packets=1):
            super().__init__(mtu)

    evenkeel.register("mine", Mine)
    with pytest.raises(ValueError, match="mine-packets-2 and mine:packets=2 would be one"):
        evenkeel.compare(SCENARIO, {"mine-packets-2": Mine}, against=["mine:packets=2"])
