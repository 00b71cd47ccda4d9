"""Scenarios as Python has them."""

from __future__ import annotations

import json
import numbers
import operator
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from . import _native
from ._native import ScenarioError

#: A dict with the keys of docs/scenarios.md, a TOML text, or the path of a file.
AnyScenario = Union[Mapping[str, Any], str, "os.PathLike[str]"]


class Scenario(Dict[str, Any]):
    """A scenario, built table by table. It is a dict with the keys of docs/scenarios.md, and errors
    are those of a file.

    >>> scenario = Scenario("first", duration_s=30, topology="dumbbell")
    >>> scenario.link("bottleneck", rate_bps=10e6, delay_ms=20, queue_packets=80)
    >>> scenario.flow("mine", app="bulk", controller="keel")
    >>> scenario.flow("other", app="bulk", controller="cubic", start_s=5)
    """

    def __init__(self, name: str, **keys: Any) -> None:
        super().__init__(name=name, **keys)

    def link(self, name: str, **keys: Any) -> None:
        """Adds a ``[[links]]`` table: ``rate_bps``, ``delay_ms``, ``queue_packets``, ``loss``, ..."""
        self._add("links", name, keys)

    def flow(self, name: str, **keys: Any) -> None:
        """Adds a ``[[flows]]`` table: ``app``, ``controller``, ``count``, ``start_s``, ..."""
        self._add("flows", name, keys)

    def cross(self, name: str, **keys: Any) -> None:
        """Adds a ``[[cross]]`` table, UDP traffic beside flows: ``kind``, ``rate_bps``, ..."""
        self._add("cross", name, keys)

    def _add(self, table: str, name: str, keys: Mapping[str, Any]) -> None:
        # `from` is a word of Python; `from_` stands for it.
        plain = {key[:-1] if key == "from_" else key: value for key, value in keys.items()}
        self[table] = [*self.get(table, []), {"name": name, **plain}]


def to_toml(scenario: Mapping[str, Any]) -> str:
    """Returns the scenario file that a dict stands for. Lines in errors count in this text.

    >>> print(to_toml({"name": "a", "links": [{"name": "l", "rate_bps": 5e6}]}))
    name = "a"
    <BLANKLINE>
    [[links]]
    name = "l"
    rate_bps = 5000000.0
    <BLANKLINE>
    """
    plain = _plain(scenario, "")
    return _native.to_toml(json.dumps(plain))


def source(
    scenario: AnyScenario,
    set: Optional[Mapping[str, Any]] = None,
    seed: Optional[int] = None,
) -> Dict[str, Any]:
    """The scenario with overrides, as the native part takes it."""
    overrides = [
        f"{_unicode(str(key), 'a key of set')}={_override(value, key)}"
        for key, value in mapping("set", set).items()
    ]
    if seed is not None:
        overrides.append(f"seed={whole('seed', seed)}")
    made = {"path": None, "text": "", "name": "scenario", "overrides": overrides}
    if isinstance(scenario, Mapping):
        made["text"] = to_toml(scenario)
    elif isinstance(scenario, str) and not scenario.endswith(".toml") and "=" in scenario:
        made["text"] = _unicode(scenario, "its text")
    elif isinstance(scenario, (str, os.PathLike)):
        made["path"] = os.fspath(scenario)
    else:
        raise TypeError(
            f"a scenario is a dict, a TOML text or a path, not {type(scenario).__name__}"
        )
    return made


def command(source: Mapping[str, Any]) -> str:
    """The command that makes the run of a scenario's file again, without its seed; empty for other
    scenarios."""
    if source["path"] is None:
        return ""
    sets = [
        word
        for one in source["overrides"]
        if not one.startswith("seed=")
        for word in ("--set", one)
    ]
    # A path need not be Unicode; what is shown is.
    path = os.fsencode(source["path"]).decode(errors="replace")
    words = ["evenkeel-testbed", "run", path, *sets]
    return " ".join(_quoted(word) for word in words)


def seeds_of(seeds: Union[int, Iterable[int]], first: int) -> List[int]:
    """This number of seeds from ``first`` on, or those given."""
    if isinstance(seeds, Iterable):
        chosen = [whole("seed", seed) for seed in seeds]
    else:
        chosen = list(range(first, first + whole("seeds", seeds)))
    if not chosen:
        raise ValueError(f"seeds = {seeds!r} is no seed; give 1 or more, or a list")
    return chosen


def several(name: str, values: Any) -> List[Any]:
    """The values as a list; a text is one of them."""
    if isinstance(values, str):
        return [values]
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} is {values!r}; write a list") from None


def mapping(name: str, values: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """The values as a dict; empty for None."""
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"{name} is {values!r}; write a dict")
    return dict(values or {})


def whole(name: str, value: Any) -> int:
    """The value as a whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; write a whole number") from None


def within(name: str, value: Any, least: float, most: float) -> None:
    """Checks that a value is a number from ``least`` to ``most``."""
    if not (isinstance(value, numbers.Real) and least <= float(value) <= most):
        raise ValueError(f"{name} is {value!r}; use a number from {least} to {most}")


def _quoted(word: str) -> str:
    if word and all(
        letter.isascii() and letter.isalnum() or letter in "-_.,:=+/" for letter in word
    ):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _plain(value: Any, place: str) -> Any:
    """The value without types of numpy and pathlib."""
    if value is None:
        raise ScenarioError(f"scenario: {place} is None; leave the key out")
    if isinstance(value, Mapping):
        keys = {str(key): f"{place}.{key}".lstrip(".") for key in value}
        values = zip(keys.items(), value.values())
        return {_unicode(key, "a key"): _plain(one, at) for (key, at), one in values}
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), place)
    if isinstance(value, (list, tuple)):
        return [_plain(one, f"{place}.{index}") for index, one in enumerate(value)]
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        raise ScenarioError(f"scenario: {place} is {value}; write a finite number")
    if isinstance(value, str):
        return _unicode(value, place)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ScenarioError(f"scenario: {place} is beyond 64 bits; write a number below 2**63")
    if isinstance(value, (bool, int, float)):
        return value
    raise ScenarioError(
        f"scenario: {place} is a {type(value).__name__}; write a number, a text, a list or a dict"
    )


def _unicode(text: str, place: str) -> str:
    """The text, if it is one: half a pair of UTF-16 is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ScenarioError(f"scenario: {place} is no Unicode: {text!r}") from None
    return text


def _override(value: Any, key: str) -> str:
    """The value as ``--set`` takes it. A text that no TOML could be has no quotation marks there:
    commands and errors show it as people write it."""
    if isinstance(value, str) and _NO_TOML.fullmatch(value):
        return value
    return _inline(value, key)


#: Texts that are no value of TOML, such as ``vegas:beta=4``.
_NO_TOML = re.compile(r"(?!(true|false|inf|nan)$)[A-Za-z][A-Za-z0-9_:=,.+/-]*")


def _inline(value: Any, key: str) -> str:
    """The value as TOML on one line."""
    value = _plain(value, key)
    if isinstance(value, dict):
        items = (f"{_quotation(key)} = {_inline(one, key)}" for key, one in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(one, key) for one in value) + "]"
    return _quotation(value) if isinstance(value, str) else json.dumps(value)


def _quotation(text: str) -> str:
    # TOML's texts are those of JSON, but for one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
