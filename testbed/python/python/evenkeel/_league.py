"""The league: each controller on each network, scored."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._controller import Controller, described, names_of
from ._fingerprint import fingerprint
from ._processes import in_processes, positive
from ._result import Frame
from ._scenario import several

#: Who plays beside one's own.
OPPONENTS = (
    "keel",
    "cubic",
    "reno",
    "bbr",
    "noq-bbr3",
    "vegas",
    "ada-vegas",
    "ro-vegas",
    "abgd",
    "acp",
)


class League(Frame):
    """A league that was played. ``print`` shows the scores; ``page`` is the path of its page, and
    ``summary`` the contents of league.json (docs/league.md). ``dead_flows`` has a line for each
    flow that died in a run of this call."""

    def __init__(self, table: str, page: pathlib.Path, dead_flows: List[str]) -> None:
        self.text = table
        self.page = page
        self.dead_flows = dead_flows
        self.summary: Dict[str, Any] = json.loads(
            page.with_suffix(".json").read_text(encoding="utf-8")
        )

    def table(self) -> Dict[str, List[Any]]:
        """Returns columns with a row for each controller and group: the median score over the
        seeds, 0 to 1, its least and its greatest. The group ``total`` is the score of all."""
        rows = self.summary["table"]
        # One number where all seeds are alike: median, least, greatest.
        scores = [row["score"] or [None] for row in rows]
        return {
            "controller": [row["controller"] for row in rows],
            "group": [row["group"] for row in rows],
            "score": [score[0] for score in scores],
            "least": [score[1] if len(score) > 1 else score[0] for score in scores],
            "greatest": [score[-1] for score in scores],
        }


def league(
    controllers: Union[Sequence[str], Mapping[str, Type[Controller]]],
    *,
    against: Sequence[str] = OPPONENTS,
    cases: Sequence[str] = (),
    quick: bool = False,
    seeds: int = 5,
    jobs: Optional[int] = None,
    out: "os.PathLike[str] | str" = "results/league",
) -> League:
    """Plays the league, as ``evenkeel-testbed league`` does, and writes the same page.

    ``controllers`` are classes by name, or names that ``register`` or the testbed knows, with
    parameters as in scenarios; ``against`` are those that play beside them. ``cases`` plays only
    cases whose name (GROUP/CASE) contains one of these texts. ``quick`` plays one seed, three of a
    case that is marked chaotic, else ``seeds`` are played. ``jobs`` processes run at a time, as
    many as there are cores without it. league.html and league.json go into ``out``, and runs that
    are there already are not made again, unless this package or one of the classes has changed.
    """
    classes = controllers if isinstance(controllers, Mapping) else {}
    names = names_of(controllers, against)
    known = described(classes)
    print_of = fingerprint([one["class"] for one in known.values()])
    positive("seeds", seeds)
    patterns = several("cases", cases)
    program = (_native.__file__, print_of)
    played = _Played(
        known, names, patterns, (quick, 1 if quick else seeds), os.fspath(out), program
    )
    dead: List[str] = []
    for _, lines in in_processes(_make, played, played.native.begin(), jobs, "league"):
        dead += lines
    table, page = played.native.write(known)
    return League(table, pathlib.Path(page), sorted(dead))


class _Played:
    """A league and what it was made of, from which another process makes it again."""

    def __init__(self, known: Mapping[str, Any], *more: Any) -> None:
        self.known, self._more = known, more
        self.native = _native.League(known, *more)

    def __reduce__(self) -> Tuple[Any, ...]:
        return _Played, (self.known, *self._more)


def _make(played: _Played, number: int) -> List[str]:
    return played.native.make(played.known, number)
