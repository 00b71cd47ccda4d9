"""Controllers in Python, and the names under which scenarios find them."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type

from . import _native
from ._native import Ack, Congestion, Loss, PathSample, Round
from ._scenario import mapping, several


class Controller:
    """A congestion controller for one path: inherit from it, and register the class.

    It is told what happens, and answers with attributes, which are read after every call (a
    property will do):

    - ``window``: bytes that may be in flight. A full-size packet has ``self.mtu`` bytes of UDP
      payload; n packets fill a window of n packets. A whole number or a float, which is rounded
      down. Below one packet, packets leave less often than once a round trip.
    - ``pacing_rate``: bytes per second at which packets leave, at least one in 10 s. ``None`` (the
      default) spreads the window over the round trip: 1.1 windows in each, or 2 in slow start.
    - ``slow_start_threshold``: bytes. A controller is in slow start while this is ``None`` or above
      the window; with 0 (the default) it never is. For pacing, series and careful resume.
    - ``ecn``: ``"classic"`` (the default) or ``"scalable"`` (L4S), an attribute of the class.

    The calls for one ACK frame, in order: ``on_path`` for each path header since the ACK before,
    ``on_ack``, ``on_round`` if the ACK ends a round trip, then ``on_lost`` and ``on_congestion`` if
    packets were lost or marked. Define those that you need; others cost nothing.

    Both ends of a connection have a controller, made by ``YourClass(mtu)``; only the sender's has
    data to send. Parameters of ``__init__`` after ``mtu`` that have a bool, an int or a float as
    default are parameters of the name: ``mine:packets=20`` in a scenario calls
    ``YourClass(mtu, packets=20)``. An exception ends the run, and ``evenkeel.run`` raises it.

    A controller that decides by what it was told alone repeats its runs byte for byte. One that
    draws random numbers seeds its generator with a parameter. Attributes of the class are those of
    all runs in a process: what changes belongs to ``self``. When only the peer's port changes, and
    before a path's marks have been seen to mean something, the controller is copied by
    ``copy.deepcopy``.
    """

    #: Bytes of UDP payload in a full-size packet.
    mtu: int
    #: Bytes that may be in flight.
    window: float
    #: Bytes per second at which packets leave; ``None``: the window over the round trip.
    pacing_rate: Optional[float] = None
    #: The window in bytes below which it is in slow start; ``None``: at any window.
    slow_start_threshold: Optional[float] = 0
    #: How it answers marks: ``"classic"`` or ``"scalable"``.
    ecn: str = "classic"

    def __init__(self, mtu: int) -> None:
        """Begins a path whose full-size packets have ``mtu`` bytes of UDP payload, with RFC 9002's
        initial window: ten packets, in at most 14,720 bytes."""
        self.mtu = mtu
        self.window = min(10 * mtu, max(14_720, 2 * mtu))

    def on_ack(self, ack: Ack) -> None:
        """An ACK frame newly acknowledged packets."""

    def on_round(self, round: Round) -> None:
        """A round trip of data is over; follows ``on_ack`` of the ACK that ended it."""

    def on_lost(self, loss: Loss) -> None:
        """Packets were declared lost: every detection."""

    def on_congestion(self, event: Congestion) -> None:
        """Packets were lost or marked: at most once in a recovery period."""

    def on_path(self, sample: PathSample) -> None:
        """A path header measured one round trip. A class that has this sends path headers."""

    def on_persistent_congestion(self) -> None:
        """All that was sent for several probe timeouts was lost (RFC 9002, section 7.6). As it is
        here, the window falls to two packets."""
        self.window = 2 * self.mtu

    def on_mtu(self, mtu: int) -> None:
        """Full-size packets now have ``mtu`` bytes of UDP payload. As it is here, keeps it in
        ``self.mtu``, and the window at two packets at least."""
        self.mtu = mtu
        if self.window < 2 * mtu:
            self.window = 2 * mtu

    def resume(self, window: int) -> None:
        """The path is known to carry ``window`` bytes in a round trip (RFC 9959). As it is here,
        goes on with that window, and ends slow start."""
        self.window = max(window, 2 * self.mtu)
        if self.slow_start_threshold != 0:
            self.slow_start_threshold = self.window


#: Called if the class has its own.
_CALLS = ("on_ack", "on_round", "on_lost", "on_congestion", "on_path")

_registered: Dict[str, Type[Controller]] = {}


def register(name: str, controller: Type[Controller]) -> None:
    """Gives a class of controllers a name (letters, digits and ``-_.``), under which every
    scenario, comparison and league of this process finds it. A second class of the same name
    takes the place of the first, so that a notebook's cell can be run again.

    Raises ``ScenarioError`` if a controller that ships has the name.
    """
    _native.controllers(described({name: controller}))
    _registered[name] = controller


def controllers() -> Dict[str, str]:
    """Returns the names of all controllers, those that ship first, with a summary of each."""
    return _native.controllers(described())


def described(more: Optional[Mapping[str, Type[Controller]]] = None) -> Dict[str, Dict[str, Any]]:
    """What the native part has to know of the registered classes and ``more``."""
    known = {**_registered, **mapping("controllers", more)}
    return {name: _describe(name, one) for name, one in known.items()}


def names_of(controllers: Iterable[str], against: Iterable[str]) -> List[str]:
    """The names of those that are compared, each once."""
    names = [*several("controllers", controllers), *several("against", against)]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name of a controller; write {{name: class}}")
    if not names:
        raise ValueError("there are no controllers; give one at least")
    return list(dict.fromkeys(names))


def _describe(name: str, controller: Type[Controller]) -> Dict[str, Any]:
    if not (inspect.isclass(controller) and issubclass(controller, Controller)):
        raise TypeError(
            f"controller {name!r}: {controller!r} is no class that inherits from Controller"
        )
    for unknown in (call for call in dir(controller) if call.startswith("on_")):
        if not hasattr(Controller, unknown):
            known = [call for call in dir(Controller) if call.startswith("on_")]
            close = difflib.get_close_matches(unknown, known, 1, 0.8)
            meant = f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}"
            raise TypeError(f"controller {name!r}: nothing calls {unknown}: {meant}")
    for call in (*_CALLS, "on_persistent_congestion", "on_mtu", "resume"):
        function = getattr(controller, call)
        if not callable(function) or _defers(function):
            raise TypeError(
                f"controller {name!r}: {call} is {function!r}; "
                "write a method without yield and async"
            )
    own = {call for call in _CALLS if getattr(controller, call) is not getattr(Controller, call)}
    lines = (controller.__doc__ or "").strip().splitlines() if "__doc__" in vars(controller) else []
    return {
        "class": controller,
        "summary": lines[0] if lines else "a controller in Python",
        "parameters": _parameters(name, controller),
        "methods": own,
    }


def _defers(function: Any) -> bool:
    """Whether a call of it does nothing yet."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _parameters(name: str, controller: Type[Controller]) -> List[Tuple[str, Any]]:
    found = list(inspect.signature(controller.__init__).parameters.values())[1:]
    if not found or found[0].kind not in (found[0].POSITIONAL_ONLY, found[0].POSITIONAL_OR_KEYWORD):
        raise TypeError(
            f"controller {name!r}: its __init__ takes no mtu; write __init__(self, mtu)"
        )
    parameters: List[Tuple[str, Any]] = []
    for one in found[1:]:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        wrong = f"controller {name!r}: parameter {one.name}"
        if one.kind is one.POSITIONAL_ONLY:
            raise TypeError(f"{wrong} has no name for calls; write it behind the /")
        if not isinstance(one.default, (bool, int, float)):
            raise TypeError(f"{wrong} needs a default: a bool, an int or a float")
        try:
            float(one.default)
        except OverflowError:
            raise TypeError(f"{wrong} has a default that no float holds; lower it") from None
        parameters.append((one.name, one.default))
    return parameters
