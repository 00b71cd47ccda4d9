import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import evenkeel
import numpy as np
import pytest
from conftest import ROOT, SCENARIO, TEXT

SCENARIOS = ROOT / "testbed/scenarios"


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("dumbbell", {"duration_s": 8, "warmup_s": 2}),
        ("asymmetric", {"duration_s": 4, "warmup_s": 0}),
        ("wifi", {"duration_s": 4, "warmup_s": 1, "links.0.loss": 0.01}),
        ("aqm", {"duration_s": 4, "warmup_s": 1, "flows.0.controller": "vegas:beta=4"}),
    ],
)
def test_the_command_run_and_python_write_the_same_bytes(program, tmp_path, name, sets):
    file = SCENARIOS / f"{name}.toml"
    command, python = tmp_path / "command", tmp_path / "python"
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    words = [program, "-q", "run", str(file), *words, "--seed", "3", "--qlog"]
    words += ["--out", str(command), "--json"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    result = evenkeel.run(file, seed=3, set=sets, out=python, qlog=True)
    assert result.json == printed
    files = sorted(path.name for path in command.iterdir())
    assert sorted(path.name for path in python.iterdir()) == files
    assert len(files) > 8
    assert any(name.endswith(".sqlog") for name in files)
    for name in files:
        assert (command / name).read_bytes() == (python / name).read_bytes(), name


@pytest.mark.parametrize(
    "scenario",
    [
        TEXT.replace("[[flows]]", "[[flow]]"),
        TEXT.replace("delay_ms", "dealy_ms"),
        TEXT.replace('"reno"', '"rneo"'),
        TEXT.replace('"5M"', "-1"),
        TEXT.replace('"reno"', '"reno'),
    ],
)
def test_errors_have_the_words_of_the_command(program, tmp_path, monkeypatch, scenario):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("scenario").write_text(scenario)
    words = [program, "run", "scenario"]
    printed = subprocess.run(words, capture_output=True, text=True).stderr
    for made in (scenario, pathlib.Path("scenario")):
        with pytest.raises(evenkeel.ScenarioError) as raised:
            evenkeel.run(made)
        assert f"evenkeel-testbed: {raised.value}\n" == printed


def test_a_file_that_is_not_there_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError, match="cannot read the scenario nowhere.toml"):
        evenkeel.run("nowhere.toml")


def test_a_dict_a_text_and_a_file_are_the_same_scenario(tmp_path):
    text = evenkeel.to_toml(SCENARIO)
    (tmp_path / "a.toml").write_text(text)
    from_dict = evenkeel.run(SCENARIO)
    assert evenkeel.run(text).json == from_dict.json
    assert evenkeel.run(tmp_path / "a.toml").json == from_dict.json
    assert evenkeel.run(str(tmp_path / "a.toml")).json == from_dict.json
    assert evenkeel.run(SCENARIO, seed=2).json != from_dict.json


def test_values_of_numpy_and_overrides_are_those_of_a_file():
    scenario = {**SCENARIO, "duration_s": np.int64(2), "warmup_s": np.float32(0.5)}
    sets = {
        "links.0.loss": np.float64(0.25),
        "flows.0.controller": "reno",
        "links.0.blackouts": [{"start_s": 1, "length_s": 0.1}],
    }
    config = evenkeel.run(scenario, set=sets).summary["config"]
    assert config["duration_s"] == 2
    assert (config["links"][0]["loss"], config["flows"][0]["controller"]) == (0.25, "reno")
    assert config["links"][0]["blackouts"] == [{"start_s": 1.0, "length_s": 0.1}]


TEXTS = ["2026", "true", "inf", "1e5", '"q"', "'q'", " a ", "", "a # b", "[1]", "a\nb\x7fc\0", "é😀"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_set_stays_a_text(text):
    config = evenkeel.run(TEXT, set={"description": text}).summary["config"]
    assert config["description"] == text
    with pytest.raises(evenkeel.ScenarioError, match="loss is a string"):
        evenkeel.run(TEXT, set={"links.0.loss": text})


def test_texts_in_values_that_are_set_stay_texts():
    for text in TEXTS:
        with pytest.raises(evenkeel.ScenarioError, match="unknown key") as raised:
            evenkeel.run(TEXT, set={"sampling": {text: text}})
        assert "--set sampling={" in str(raised.value)


GREAT = [10**30, 2**63, -(2**63) - 1, 1 << 20_000, np.uint64(2**63)]


@pytest.mark.parametrize("value", GREAT, ids=hash)
def test_whole_numbers_beyond_64_bits_are_refused_with_their_place(value):
    scenario = {**SCENARIO, "links": [{**SCENARIO["links"][0], "queue_packets": value}]}
    with pytest.raises(evenkeel.ScenarioError, match=r"links\.0\.queue_packets is beyond 64 bits"):
        evenkeel.run(scenario)
    with pytest.raises(evenkeel.ScenarioError, match=r"links\.0\.queue_packets is beyond 64 bits"):
        evenkeel.run(SCENARIO, set={"links.0.queue_packets": value})


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), object()])
def test_values_that_no_file_can_hold_are_refused_with_their_place(value):
    scenario = {**SCENARIO, "links": [{**SCENARIO["links"][0], "loss": value}]}
    with pytest.raises(evenkeel.ScenarioError, match=r"links\.0\.loss"):
        evenkeel.run(scenario)


def test_arrays_hold_the_series_of_the_file(tmp_path):
    result = evenkeel.run(SCENARIO, out=tmp_path)
    series = json.loads((tmp_path / "series.json").read_text())
    assert len(result.time_s) == 120
    assert result.time_s[-1] == 5.95
    for kind, arrays in (("flows", result.series), ("links", result.link_series)):
        for one in series[kind]:
            own = arrays[one["name"]]
            lists = {
                key: values
                for key, values in one.items()
                if isinstance(values, list) and key != "transfers"
            }
            assert set(own) == set(lists)
            for key, values in lists.items():
                expected = np.array(
                    [np.nan if value is None else value for value in values], dtype=float
                )
                np.testing.assert_array_equal(own[key], expected, err_msg=key)


def test_arrays_own_no_copy_and_samples_cover_the_run():
    result = evenkeel.run(SCENARIO, set={"flows.1.path_headers": 1, "links.0.stamps": ["aqt"]})
    acks = result.samples["second"]["acks"]
    assert len(acks["at_s"]) == len(acks["rtt_ms"]) > 100
    assert 1 < acks["at_s"][0] < acks["at_s"][-1] <= 6
    assert acks["rtt_ms"].min() >= 20
    # The memory belongs to Rust, which handed it over.
    assert not acks["rtt_ms"].flags.owndata
    headers = result.samples["second"]["headers"]
    assert len(headers["rtt_ms"]) > 100
    assert np.nanmax(headers["forward_queueing_ms"]) > 1
    assert result.samples["first"]["transfers"]["bytes"][0] > 1e5


def test_a_result_can_be_pickled():
    result = evenkeel.run(TEXT)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.json == result.json
    np.testing.assert_array_equal(
        copy.series["only"]["rate_bps"], result.series["only"]["rate_bps"]
    )


def test_tables_are_data_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    result = evenkeel.run(SCENARIO)
    flows = result.to_pandas()
    assert list(flows["name"]) == ["first", "second"]
    assert flows["rtt_ms.p50"].iloc[0] == result.flows["first"]["rtt_ms"]["p50"]
    series = result.to_pandas("series")
    assert len(series) == 240
    assert series.groupby("flow")["rate_bps"].mean().min() > 1e5
    for name in ("flows", "links", "series", "link_series", "acks", "headers", "transfers"):
        one, other = result.to_pandas(name), result.to_polars(name)
        assert isinstance(one, pandas.DataFrame) and isinstance(other, polars.DataFrame)
        assert list(one.columns) == other.columns
        assert len(one) == len(other)
    with pytest.raises(ValueError, match="use one of flows, links"):
        result.to_pandas("flow")


@pytest.mark.parametrize("package", ["pandas", "polars", "matplotlib"])
def test_a_package_that_is_missing_is_named(monkeypatch, package):
    result, points = evenkeel.run(TEXT), evenkeel.sweep(TEXT, {}, jobs=1)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    calls = [result.plot]
    if package != "matplotlib":
        calls = [getattr(one, f"to_{package}") for one in (result, points)]
    for call in calls:
        with pytest.raises(ImportError, match=f"pip install {package}"):
            call()


def test_a_plot_of_a_flow_that_is_not_there_names_those_that_are():
    pytest.importorskip("matplotlib").use("Agg")
    result = evenkeel.run(SCENARIO)
    with pytest.raises(ValueError, match="no flow 'third'; the scenario has first, second"):
        result.plot(["third"])
    assert len(result.plot("first").axes[0].lines) == 1


def test_a_plot_has_the_flows_and_the_queue():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = evenkeel.run(SCENARIO).plot()
    assert [len(panel.lines) for panel in figure.axes] == [2, 2, 2, 1]


def test_a_bar_shows_how_much_of_the_run_is_over(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    shown = io.StringIO()

    class Bar(tqdm.tqdm):
        def __init__(self, **more):
            more.update(disable=False, file=shown, mininterval=0, miniters=0)
            super().__init__(**more)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    evenkeel.run(SCENARIO, progress=True)
    assert "100%" in shown.getvalue() and " 6.0/6.0 [" in shown.getvalue()
    assert not re.search(r"\.\d{4}", shown.getvalue())


def test_other_threads_run_while_a_scenario_does():
    begun, ended, turns = threading.Event(), threading.Event(), 0

    def work():
        begun.set()
        evenkeel.run(SCENARIO, set={"duration_s": 60})
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    while not ended.is_set():
        turns += 1
    thread.join()
    # With the GIL held this thread would get a turn or two.
    assert turns > 1000


def test_runs_on_several_threads_do_not_disturb_each_other():
    alone = {seed: evenkeel.run(TEXT, seed).json for seed in (1, 2, 3)}
    together = {}

    def work(seed):
        class Own(evenkeel.Controller):
            def on_congestion(self, event):
                self.window /= 2

        assert evenkeel.run(TEXT, seed, controllers={"own": Own}).json == alone[seed]
        together[seed] = evenkeel.run(TEXT, seed).json

    threads = [threading.Thread(target=work, args=(seed,)) for seed in alone]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert together == alone


def test_every_packet_is_kept_where_that_is_asked_for():
    result = evenkeel.run(SCENARIO, packets=True)
    packets = result.samples["first"]["packets"]
    assert set(packets) == {"sent_s", "arrived_s", "bytes", "queueing_ms", "marked"}
    arrived = ~np.isnan(packets["arrived_s"])
    assert arrived.sum() > 1000
    assert not packets["sent_s"].flags.owndata and not packets["bytes"].flags.owndata
    took_ms = (packets["arrived_s"] - packets["sent_s"])[arrived] * 1e3
    sends_ms = packets["bytes"][arrived] * 8 / 5e6 * 1e3
    expected_ms = packets["queueing_ms"][arrived] + sends_ms + 10
    np.testing.assert_allclose(took_ms, expected_ms, atol=1e-3)
    assert np.isnan(packets["queueing_ms"][~arrived]).all()
    # The figures are those of a run that keeps none.
    without = evenkeel.run(SCENARIO)
    assert without.json == result.json
    with pytest.raises(ValueError, match="run it with packets=True"):
        without.table("packets")
    table = result.table("packets")
    assert len(table["flow"]) == len(packets["bytes"]) + len(
        result.samples["second"]["packets"]["bytes"]
    )


def test_a_scenario_is_built_table_by_table():
    built = evenkeel.Scenario(
        "short", duration_s=6, warmup_s=1, topology="dumbbell", sampling={"interval_ms": 50}
    )
    built.link("bottleneck", rate_bps=5e6, delay_ms=10, queue_packets=40)
    built.flow("first", app="bulk", controller="cubic")
    built.flow("second", app="bulk", controller="vegas", start_s=1)
    assert built == SCENARIO
    assert evenkeel.run(built, packets=False).json == evenkeel.run(SCENARIO).json
    copy = pickle.loads(pickle.dumps(built))
    copy.cross("udp", kind="cbr", rate_bps=1e5)
    assert isinstance(copy, evenkeel.Scenario) and "cross" not in built
    graph = evenkeel.Scenario("graph", duration_s=1)
    graph.link("l", from_="a", to="b")
    assert graph["links"] == [{"name": "l", "from": "a", "to": "b"}]
    with pytest.raises(evenkeel.ScenarioError, match='unknown key "dealy_ms"'):
        built.link("other", dealy_ms=1)
        evenkeel.run(built)


def test_a_path_may_have_any_name(tmp_path):
    place = tmp_path / "a=1.toml"
    place.write_text(TEXT)
    assert evenkeel.run(str(place)).json == evenkeel.run(TEXT).json


@pytest.mark.skipif(sys.platform != "linux", reason="paths of other systems are Unicode")
def test_paths_need_not_be_unicode(program, tmp_path):
    place, command, python = (tmp_path / os.fsdecode(b"%c\xe9" % one) for one in b"abc")
    place.write_text(TEXT)
    subprocess.run([program, "-q", "run", place, "--out", command], check=True)
    evenkeel.run(place, out=python)
    for file in command.iterdir():
        assert file.read_bytes() == (python / file.name).read_bytes(), file.name
    out = tmp_path / os.fsdecode(b"d\xe9")
    assert "reno" in str(evenkeel.compare(place, ["reno"], out=out))
    assert (out / "comparison.html").exists()


def test_a_text_that_is_no_unicode_is_an_error_of_the_scenario():
    for wrong in (
        lambda: evenkeel.run({**SCENARIO, "description": "\ud800"}),
        lambda: evenkeel.run({**SCENARIO, "\ud800": 1}),
        lambda: evenkeel.run(SCENARIO, set={"description": "\ud800"}),
        lambda: evenkeel.run(SCENARIO, set={"\ud800": 1}),
        lambda: evenkeel.run(TEXT + "\n# \ud800"),
    ):
        with pytest.raises(evenkeel.ScenarioError, match=r"^scenario: .* is no Unicode: .*\\ud800"):
            wrong()


@pytest.mark.parametrize("seed", [1.5, "two", float("nan"), [1]])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(TypeError, match="write a whole number"):
        evenkeel.run(TEXT, seed)


def test_a_result_has_the_versions_of_what_made_it():
    result = evenkeel.run(TEXT)
    assert result.versions == evenkeel.versions()
    assert result.versions["evenkeel"] == evenkeel.__version__
    assert result.versions["numpy"] == np.__version__
    assert len(result.versions["evenkeel sha256"]) == 64
    assert pickle.loads(pickle.dumps(result)).versions == result.versions
