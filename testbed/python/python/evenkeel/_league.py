"""The league: each controller on each network, scored."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import platform
import site
import sys
import sysconfig
import types
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._controller import Controller, described, names_of
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


def fingerprint(classes: Sequence[type]) -> str:
    """A text that changes when a class does what it does otherwise: its code, its attributes, and
    the functions, classes, objects and constants that they name. Of installed packages it has the
    version."""
    seen: _Seen = {}
    text = ";".join(_print_of(one, seen) for one in classes)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


#: What has been printed, by id, with its number. It is kept, so that no other object has its id.
_Seen = Dict[int, Tuple[int, Any]]

#: Attributes of a class that say nothing of what it does.
_HIDDEN = (
    "__dict__",
    "__weakref__",
    "__module__",
    "__doc__",
    "__firstlineno__",
    "__static_attributes__",
)


def _print_of(value: Any, seen: _Seen) -> str:
    if isinstance(value, (type(None), bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, tuple) and type(value) is tuple:
        # It may be one object or several; it is in no ring without another object.
        return "(" + ",".join(_print_of(one, seen) for one in value) + ")"
    if isinstance(value, types.CodeType):
        return _print_of((value.co_code, value.co_names, value.co_varnames, value.co_consts), seen)
    if id(value) in seen:
        return f"<{seen[id(value)][0]}>"
    seen[id(value)] = (len(seen), value)
    if type(value) is list:
        return "[" + ",".join(_print_of(one, seen) for one in value) + "]"
    if type(value) in (set, frozenset):
        return "{" + ",".join(sorted(_print_of(one, {}) for one in value)) + "}"
    if isinstance(value, (dict, types.MappingProxyType)) and type(value).__module__ == "builtins":
        return "{" + ",".join(f"{key!r}:{_print_of(one, seen)}" for key, one in value.items()) + "}"
    if isinstance(value, (staticmethod, classmethod)):
        return _print_of(value.__func__, seen)
    if isinstance(value, property):
        return _print_of((value.fget, value.fset), seen)
    if isinstance(value, types.ModuleType):
        return f"{value.__name__} {getattr(value, '__version__', '')}"
    if isinstance(value, (type, types.FunctionType)):
        version = _version(value.__module__)
        if version is not None:
            return f"{value.__module__}.{value.__qualname__} {version}"
    if isinstance(value, types.FunctionType):
        named = {
            name: value.__globals__[name]
            for name in _names(value.__code__)
            if name in value.__globals__
        }
        closure = tuple(_content(cell) for cell in value.__closure__ or ())
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, closure, named)
        return _print_of(parts, seen)
    if isinstance(value, type):
        own = {key: one for key, one in vars(value).items() if key not in _HIDDEN}
        return _print_of((value.__qualname__, value.__bases__, own), seen)
    return _print_of((type(value), _state(value)), seen)


def _state(value: Any) -> Any:
    """What makes an object what it is: what it wraps, or what pickle would keep."""
    if hasattr(value, "__wrapped__"):
        return value.__wrapped__
    try:
        kept = value.__reduce_ex__(4)
    except Exception:
        return getattr(value, "__dict__", None)
    if isinstance(kept, str):
        return kept
    # The last two are iterators over its items.
    return (*kept[:3], *(list(items or ()) for items in kept[3:5]))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # A variable without a value yet.
        return None


def _version(module: Optional[str]) -> Optional[str]:
    """The version of an installed module, or of Python; None for a module of one's own."""
    top = (module or "").split(".")[0]
    if top == "evenkeel" or top in sys.builtin_module_names:
        return ""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    if not file or not file.startswith((*places, site.getusersitepackages())):
        return None
    return str(getattr(sys.modules.get(top), "__version__", platform.python_version()))


def _names(code: types.CodeType) -> List[str]:
    """The names that code uses, with that of functions in it."""
    inner = [
        name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)
    ]
    return sorted({*code.co_names, *inner})
