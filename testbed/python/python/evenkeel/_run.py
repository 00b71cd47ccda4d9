"""Runs one scenario."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Tuple, Type

from . import _native
from ._controller import Controller, described
from ._processes import Bar
from ._result import Result
from ._scenario import AnyScenario, command, source


def run(
    scenario: AnyScenario,
    seed: Optional[int] = None,
    *,
    set: Optional[Mapping[str, Any]] = None,
    controllers: Optional[Mapping[str, Type[Controller]]] = None,
    out: "Optional[os.PathLike[str] | str]" = None,
    qlog: bool = False,
    packets: bool = False,
    progress: bool = False,
) -> Result:
    """Runs a scenario in virtual time, on the code that ships, and returns its results.

    ``scenario`` is a dict with the keys of docs/scenarios.md, a ``Scenario``, a TOML text, or the
    path of a file.
    ``seed`` is that of every random choice, the scenario's own (1) without it: the same scenario,
    seed and version give the same bytes. ``set`` overrides values, as ``--set`` does, but a str
    stays one: ``{"flows.0.controller": "reno", "links.0.loss": 0.01}``. ``controllers`` are known
    to this run besides those that ``register`` has named. ``out`` is a directory for the files that
    ``evenkeel-testbed run`` writes there, byte for byte (docs/results.md), and with ``qlog`` a log
    of each flow's sender. ``packets`` keeps each packet in ``samples[FLOW]["packets"]``, about 30
    bytes of memory for each. ``progress`` shows a bar, if tqdm is installed.

    Raises ``ScenarioError``, with the line that ``evenkeel-testbed run`` prints, if the scenario
    makes no sense; ``OSError`` if a file cannot be read or written; and whatever a controller in
    Python raises. Other threads run meanwhile: the GIL is held in such controllers alone.
    """
    made = source(scenario, set, seed)
    return run_source(made, described(controllers), out, (qlog, packets), progress)


def run_source(
    made: Mapping[str, Any],
    known: Mapping[str, Any],
    out: "Optional[os.PathLike[str] | str]" = None,
    records: Tuple[bool, bool] = (False, False),
    progress: bool = False,
) -> Result:
    """Runs what ``source`` has made."""
    if records[0] and out is None:
        raise ValueError("qlog needs a directory; give out")
    again = command(made)
    directory = None if out is None else os.fspath(out)
    if not progress:
        return Result(_native.run(made, known, None, directory, records, again))
    _, _, duration_s = _native.check(made, known)
    with Bar("virtual time", round(duration_s, 3), "s") as bar:
        return Result(_native.run(made, known, bar.at, directory, records, again))
