"""One scenario over the values of keys, with several seeds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
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
from ._controller import Controller, described
from ._processes import in_processes
from ._result import Result, _columns, _flat, pandas_frame, polars_frame
from ._run import run_source
from ._scenario import AnyScenario, mapping, seeds_of, several, source

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass
class Point:
    """A run of a sweep: the values of its keys, its seed, its result."""

    values: Dict[str, Any]
    seed: int
    result: Result


class Sweep(Sequence[Point]):
    """The runs of a sweep in order: all seeds of the first values, then of the next."""

    def __init__(self, points: List[Point]) -> None:
        self._points = points

    def __getitem__(self, index: Any) -> Any:
        return self._points[index]

    def __len__(self) -> int:
        return len(self._points)

    def table(self, name: str = "flows") -> Dict[str, List[Any]]:
        """Returns columns with a row for each flow (or link) of each run: the values, the seed, and
        the figures of ``Result.table``."""
        rows = []
        for point in self._points:
            for one in point.result.summary[name]:
                rows.append({**point.values, "seed": point.seed, **_flat(one)})
        return _columns(rows)

    def to_pandas(self, table: str = "flows") -> "pandas.DataFrame":
        """Returns ``table`` ("flows" or "links") as a data frame of pandas."""
        return pandas_frame(self.table(table))

    def to_polars(self, table: str = "flows") -> "polars.DataFrame":
        """Returns ``table`` ("flows" or "links") as a data frame of polars."""
        return polars_frame(self.table(table))

    def __repr__(self) -> str:
        return f"Sweep of {len(self)} runs"


def sweep(
    scenario: AnyScenario,
    over: Mapping[str, Iterable[Any]],
    *,
    seeds: Union[int, Iterable[int]] = 1,
    jobs: Optional[int] = None,
    set: Optional[Mapping[str, Any]] = None,
    controllers: Optional[Mapping[str, Type[Controller]]] = None,
) -> Sweep:
    """Runs a scenario with every combination of the values of ``over`` and every seed.

    ``over`` has paths as keys and the values of each: ``{"links.0.loss": [0, 0.01],
    "flows.0.controller": ["mine", "cubic"]}``. ``seeds`` is how many, from the scenario's own on,
    or which. ``jobs`` processes run at a time, as many as there are cores without it; results do
    not depend on it, unless runs change attributes of a class, which those of one process share.
    ``set`` and ``controllers`` are as for ``run``. All runs are checked before the first begins. A
    bar shows the progress, if tqdm is installed and there is a terminal.
    """
    known = described(controllers)
    values = {key: several(key, some) for key, some in mapping("over", over).items()}
    for key, some in values.items():
        if not some:
            raise ValueError(f"{key} has no values; give one at least")
    combinations = [dict(zip(values, some)) for some in itertools.product(*values.values())]
    tasks = []
    for chosen in combinations:
        sets = {**mapping("set", set), **chosen}
        _, first, _ = _native.check(source(scenario, sets), known)
        tasks += [(chosen, seed, source(scenario, sets, seed)) for seed in seeds_of(seeds, first)]
    made = [task[2] for task in tasks]
    results: Dict[int, Result] = dict(in_processes(_run, known, made, jobs, "sweep"))
    return Sweep(
        [Point(chosen, seed, results[index]) for index, (chosen, seed, _) in enumerate(tasks)]
    )


def _run(known: Mapping[str, Any], made: Mapping[str, Any]) -> Result:
    return run_source(made, known)
