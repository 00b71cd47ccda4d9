"""Scenarios as Python has them."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from . import _native
from ._native import ScenarioError

#: A dict with the keys of docs/scenarios.md, a TOML text, or the path of a file.
Scenario = Union[Mapping[str, Any], str, "os.PathLike[str]"]


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
    scenario: Scenario,
    set: Optional[Mapping[str, Any]] = None,
    seed: Optional[int] = None,
) -> Dict[str, Any]:
    """The scenario with overrides, as the native part takes it."""
    overrides = [
        f"{key}={value if isinstance(value, str) else _inline(value, key)}"
        for key, value in (set or {}).items()
    ]
    if seed is not None:
        overrides.append(f"seed={int(seed)}")
    made = {"path": None, "text": "", "name": "scenario", "overrides": overrides}
    if isinstance(scenario, Mapping):
        made["text"] = to_toml(scenario)
    elif isinstance(scenario, str) and ("\n" in scenario or "=" in scenario):
        made["text"] = scenario
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
    words = ["evenkeel-testbed", "run", source["path"], *sets]
    return " ".join(_quoted(word) for word in words)


def seeds_of(seeds: Union[int, Iterable[int]], first: int) -> List[int]:
    """This number of seeds from ``first`` on, or those given."""
    return (
        list(range(first, first + seeds))
        if isinstance(seeds, int)
        else [int(seed) for seed in seeds]
    )


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
        return {str(key): _plain(one, f"{place}.{key}".lstrip(".")) for key, one in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), place)
    if isinstance(value, (list, tuple)):
        return [_plain(one, f"{place}.{index}") for index, one in enumerate(value)]
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        raise ScenarioError(f"scenario: {place} is {value}; write a finite number")
    if isinstance(value, (bool, int, float, str)):
        return value
    raise ScenarioError(
        f"scenario: {place} is a {type(value).__name__}; write a number, a text, a list or a dict"
    )


def _inline(value: Any, key: str) -> str:
    """The value as TOML on one line."""
    value = _plain(value, key)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {_inline(one, key)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_inline(one, key) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
