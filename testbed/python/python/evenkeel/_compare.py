"""One scenario with one controller after the other."""

from __future__ import annotations

import json
import os
import tempfile
from typing import (
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    Union,
)

from . import _native
from ._controller import Controller, described, names_of
from ._processes import in_processes
from ._result import Frame, _columns, _flat
from ._run import run_source
from ._scenario import AnyScenario, mapping, seeds_of, several, source


class Comparison(Frame):
    """What came of a comparison, the smoothest controller first. ``print`` shows the table;
    ``summary`` is the contents of comparison.json (docs/results.md)."""

    def __init__(self, table: str, text: str) -> None:
        self.text = table
        self.summary: Dict[str, Any] = json.loads(text)

    def table(self) -> Dict[str, List[Any]]:
        """Returns columns with a row for each controller."""
        return _columns([_flat(run) for run in self.summary["runs"]])


def compare(
    scenario: AnyScenario,
    controllers: Union[Sequence[str], Mapping[str, Type[Controller]]],
    *,
    against: Sequence[str] = (),
    flows: Sequence[str] = (),
    seeds: Union[int, Iterable[int]] = 1,
    jobs: Optional[int] = None,
    set: Optional[Mapping[str, Any]] = None,
    out: "Optional[os.PathLike[str] | str]" = None,
) -> Comparison:
    """Runs a scenario with one controller after the other, as ``evenkeel-testbed compare`` does.

    ``controllers`` are names, with parameters as in scenarios, or classes by name; ``against`` are
    more names. They take the place of those of all ``[[flows]]``, or of those that ``flows`` names.
    ``seeds``, ``jobs`` and ``set`` are as for ``sweep``. ``out`` is a directory for the files of
    the comparison, its page and each run's results.
    """
    classes = controllers if isinstance(controllers, Mapping) else {}
    names = names_of(controllers, against)
    known = described(classes)
    first = source(scenario, set)
    groups = _native.compared_flows(first, known, several("flows", flows))
    tasks = []
    places: Dict[str, str] = {}
    for name in names:
        other = places.setdefault(_file_name(name), name)
        if other != name:
            raise ValueError(f"{other} and {name} would be one directory; rename one")
        chosen = {f"flows.{number}.controller": name for number, _, _ in groups}
        sets = {**mapping("set", set), **chosen}
        # The controllers that the scenario names itself need not be there.
        _, seed, _ = _native.check(source(scenario, sets), known)
        for one in seeds_of(seeds, seed):
            tasks.append(
                (
                    name,
                    one,
                    os.path.join(_file_name(name), f"seed{one}"),
                    source(scenario, sets, one),
                )
            )
    with tempfile.TemporaryDirectory(prefix="evenkeel-compare-") as unnamed:
        directory = unnamed if out is None else os.fspath(out)
        made = [(os.path.join(directory, below), one) for _, _, below, one in tasks]
        for _ in in_processes(_run, known, made, jobs, "compare"):
            pass
        runs = [(name, one, os.path.join(directory, below)) for name, one, below, _ in tasks]
        table, text = _native.write_comparison(
            first, known, [name for _, name, _ in groups], runs, directory
        )
    return Comparison(table, text)


def _run(known: Mapping[str, Any], task: Any) -> None:
    directory, made = task
    run_source(made, known, directory)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_.+" else "-" for letter in name)
