"""Results of a run: figures, time series and samples as arrays, tables and plots."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from . import _native
from ._scenario import several

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    import polars

#: The tables that a result has.
TABLES = (
    "flows",
    "links",
    "series",
    "link_series",
    "acks",
    "headers",
    "transfers",
    "packets",
)


#: Packages whose versions a figure may depend on.
_PACKAGES = ("numpy", "matplotlib", "pandas", "polars", "gymnasium")


_versions: Dict[str, str] = {}


def versions() -> Dict[str, str]:
    """Returns what a figure depends on, to be kept beside it: the versions of this package, Python
    and the packages that draw, the system, and SHA-256 of this package's compiled part, which tells
    two builds of one version apart."""
    if not _versions:
        native = pathlib.Path(_native.__file__).read_bytes()
        _versions["evenkeel"] = _native.__version__
        _versions["evenkeel sha256"] = hashlib.sha256(native).hexdigest()
        _versions["python"] = platform.python_version()
        _versions["platform"] = platform.platform()
        for name in _PACKAGES:
            with contextlib.suppress(metadata.PackageNotFoundError):
                _versions[name] = metadata.version(name)
    return dict(_versions)


@contextlib.contextmanager
def needs(package: str) -> Iterator[None]:
    """Around the import of a package that need not be installed."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{package} cannot be imported ({error}); pip install {package}") from error


def pandas_frame(columns: Mapping[str, Any]) -> "pandas.DataFrame":
    """The columns as a data frame of pandas."""
    with needs("pandas"):
        import pandas
    return pandas.DataFrame(columns)


def polars_frame(columns: Mapping[str, Any]) -> "polars.DataFrame":
    """The columns as a data frame of polars."""
    with needs("polars"):
        import polars
    return polars.DataFrame(columns, strict=False)


class Frame:
    """One table, which becomes a data frame; its text is what a notebook shows."""

    text: str

    def table(self) -> Dict[str, List[Any]]:
        """Returns the columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns the table as a data frame of pandas, which must be installed."""
        return pandas_frame(self.table())

    def to_polars(self) -> "polars.DataFrame":
        """Returns the table as a data frame of polars, which must be installed."""
        return polars_frame(self.table())

    def __repr__(self) -> str:
        return self.text


class Result:
    """What came of a run. docs/results.md describes every figure.

    - ``summary``: the contents of result.json, a dict; ``json`` is its text, the same bytes that
      ``evenkeel-testbed run --json`` prints.
    - ``time_s``: where each interval of the series begins, seconds.
    - ``series[FLOW][QUANTITY]`` and ``link_series[LINK][QUANTITY]``: numpy arrays with a value for
      each interval, NaN where there is none: ``rate_bps``, ``rtt_ms``, ``window_bytes``,
      ``queue_packets``, ... as in series.json.
    - ``samples[FLOW]["acks"]``: ``at_s`` and ``rtt_ms`` of every ACK that measured a round trip;
      ``["headers"]``: what every path header reported; ``["transfers"]``: every transfer;
      ``["packets"]`` of a run with ``packets=True``: ``sent_s``, ``arrived_s``, ``bytes`` (of the IP
      packet), ``queueing_ms`` and ``marked`` of every packet that the sender sent, NaN if it has
      not arrived.
    - ``to_pandas(TABLE)`` and ``to_polars(TABLE)``: one of the tables ``flows``, ``links``,
      ``series``, ``link_series``, ``acks``, ``headers``, ``transfers``, ``packets``.
    - ``plot()``: rates, round trips, windows and queues over time.
    - ``versions``: what ``evenkeel.versions()`` was when it was made.
    """

    def __init__(self, made: Mapping[str, Any]) -> None:
        self.json: str = made["result"]
        self.summary: Dict[str, Any] = json.loads(self.json)
        self.interval_s: float = made["interval_s"]
        self.series: Dict[str, Dict[str, np.ndarray]] = made["flows"]
        self.link_series: Dict[str, Dict[str, np.ndarray]] = made["links"]
        self.samples: Dict[str, Dict[str, Dict[str, np.ndarray]]] = made["samples"]
        self.versions: Dict[str, str] = versions()

    @property
    def flows(self) -> Dict[str, Dict[str, Any]]:
        """The figures of each flow by its name, ``summary["flows"]``."""
        return {flow["name"]: flow for flow in self.summary["flows"]}

    @property
    def links(self) -> Dict[str, Dict[str, Any]]:
        """The figures of each direction of a link by its name, ``summary["links"]``."""
        return {link["name"]: link for link in self.summary["links"]}

    @property
    def time_s(self) -> np.ndarray:
        """Where each interval of the series begins, in seconds since the run began."""
        counts = [
            len(one["rate_bps"]) for one in (*self.series.values(), *self.link_series.values())
        ]
        return np.round(np.arange(max(counts, default=0)) * self.interval_s, 3)

    def table(self, name: str) -> Dict[str, Any]:
        """Returns a table as columns: ``flows`` and ``links`` have a row for each, with
        ``rtt_ms.p50`` for a figure in a figure; ``series`` and ``link_series`` a row for each
        interval of each; ``acks``, ``headers``, ``transfers`` and ``packets`` a row for each of each
        flow."""
        if name in ("flows", "links"):
            return _columns([_flat(one) for one in self.summary[name]])
        if name == "series":
            return _stacked(
                "flow", {of: {"time_s": self.time_s, **one} for of, one in self.series.items()}
            )
        if name == "link_series":
            return _stacked(
                "link", {of: {"time_s": self.time_s, **one} for of, one in self.link_series.items()}
            )
        if name == "packets" and not all(name in one for one in self.samples.values()):
            raise ValueError("the run kept no packets; run it with packets=True")
        if name in TABLES:
            return _stacked("flow", {of: one[name] for of, one in self.samples.items()})
        raise ValueError(f"no table {name!r}; use one of {', '.join(TABLES)}")

    def to_pandas(self, table: str = "flows") -> "pandas.DataFrame":
        """Returns a table as a data frame of pandas, which must be installed."""
        return pandas_frame(self.table(table))

    def to_polars(self, table: str = "flows") -> "polars.DataFrame":
        """Returns a table as a data frame of polars, which must be installed."""
        return polars_frame(self.table(table))

    def plot(self, flows: Optional[Sequence[str]] = None) -> "matplotlib.figure.Figure":
        """Draws rates, round trips and windows of the flows (all, or those named) and the queues of
        links over time, with matplotlib, which must be installed. Returns the figure."""
        with needs("matplotlib"):
            import matplotlib.pyplot as plt
        shown = several("flows", list(self.series) if flows is None else flows)
        for name in shown:
            if name not in self.series:
                raise ValueError(f"no flow {name!r}; the scenario has {', '.join(self.series)}")

        figure, panels = plt.subplots(4, 1, sharex=True, figsize=(8, 8), layout="constrained")
        time_s = self.time_s
        for name in shown:
            one = self.series[name]
            panels[0].plot(time_s, one["rate_bps"] / 1e6, label=name)
            panels[1].plot(time_s, one["rtt_ms"], label=name)
            panels[2].plot(time_s, one["window_bytes"] / 1e3, label=name)
        for name, one in self.link_series.items():
            if one["queue_packets_max"].max(initial=0) > 1:
                panels[3].plot(time_s, one["queue_packets"], label=name)
        for panel, label in zip(
            panels, ("rate, Mb/s", "round trip, ms", "window, kB", "queue, packets")
        ):
            panel.set_ylabel(label)
            panel.set_ylim(bottom=0)
            if 0 < len(panel.lines) <= 10:
                panel.legend(loc="upper right", fontsize="small")
        panels[-1].set_xlabel("s")
        panels[0].set_title(f"{self.summary['scenario']}, seed {self.summary['seed']}")
        return figure

    def __repr__(self) -> str:
        lines = ["{scenario}, seed {seed}, {duration_s:g} s".format(**self.summary)]
        for flow in self.summary["flows"]:
            rate, rtt, cov = flow["throughput_bps"], flow["rtt_ms"], flow["cov"]
            parts = [f"{flow['name']} ({flow['controller']}):"]
            parts.append("no rate" if rate is None else f"{rate / 1e6:.3f} Mb/s")
            parts += [] if rtt is None else [f"RTT {rtt['p50']:.1f} ms (p95 {rtt['p95']:.1f})"]
            parts += [] if cov is None else [f"CoV {cov:.3f}"]
            parts += [] if flow["error"] is None else [f"failed: {flow['error']}"]
            lines.append("  " + ", ".join(parts).replace(":,", ":", 1))
        return "\n".join(lines)


def _flat(value: Mapping[str, Any], path: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for key, one in value.items():
        if isinstance(one, dict):
            flat.update(_flat(one, f"{path}{key}."))
        elif not isinstance(one, list):
            flat[f"{path}{key}"] = one
    return flat


def _columns(rows: Sequence[Mapping[str, Any]]) -> Dict[str, List[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    # What is null in one row is several figures in another.
    names = [name for name in names if not any(other.startswith(name + ".") for other in names)]
    return {name: [row.get(name) for row in rows] for name in names}


def _stacked(kind: str, parts: Mapping[str, Mapping[str, np.ndarray]]) -> Dict[str, np.ndarray]:
    """One below the other, with a first column that says of which each row is."""
    columns = list(dict.fromkeys(name for part in parts.values() for name in part))
    lengths = {of: len(next(iter(part.values()), ())) for of, part in parts.items()}
    stacked = {kind: np.repeat(np.array(list(parts), dtype=object), list(lengths.values()))}
    for name in columns:
        values = [part.get(name, np.full(lengths[of], np.nan)) for of, part in parts.items()]
        stacked[name] = values[0] if len(values) == 1 else np.concatenate(values)
    return stacked
