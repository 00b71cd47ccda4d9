from os import PathLike
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, final

from typing_extensions import Self

__all__ = [
    "Ack",
    "Congestion",
    "League",
    "Loss",
    "PathSample",
    "Round",
    "ScenarioError",
    "__version__",
    "check",
    "compared_flows",
    "controllers",
    "run",
    "to_toml",
    "write_comparison",
]

__version__: str

class ScenarioError(ValueError):
    """A scenario, a controller's name or a choice that makes no sense, in one line."""

@final
class Ack:
    """The packets that one ACK frame newly acknowledged."""

    def __new__(
        cls,
        now_s: float,
        sent_s: float,
        rtt_s: Optional[float],
        packets: int,
        bytes: int,
        bytes_after_recovery: int,
        marked: int,
        in_flight: int,
        app_limited: bool,
        delivery_rate: Optional[float],
    ) -> Self: ...
    def __getnewargs__(self) -> Tuple[Any, ...]: ...
    @property
    def now_s(self) -> float:
        """When the ACK was processed, seconds since the run began."""
    @property
    def sent_s(self) -> float:
        """When the newest of the packets was sent, seconds since the run began."""
    @property
    def rtt_s(self) -> Optional[float]:
        """Round trip of the newest packet, seconds; None if the ACK measures none."""
    @property
    def packets(self) -> int:
        """Packets, at least 1."""
    @property
    def bytes(self) -> int:
        """Their bytes of UDP payload."""
    @property
    def bytes_after_recovery(self) -> int:
        """The bytes of them that may grow a window."""
    @property
    def marked(self) -> int:
        """Packets newly reported as marked (ECN CE)."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight just before, its own packets included."""
    @property
    def app_limited(self) -> bool:
        """The application kept the connection from sending more."""
    @property
    def delivery_rate(self) -> Optional[float]:
        """How fast the path delivered meanwhile, bytes per second; None if that is unknown."""

@final
class Round:
    """A round trip of data that is over."""

    def __new__(
        cls,
        now_s: float,
        rtt_min_s: float,
        small: bool,
        rtt_end_s: float,
        bytes: int,
        lost: int,
        in_flight: int,
        unused: int,
        app_limited: bool,
        in_recovery: bool,
    ) -> Self: ...
    def __getnewargs__(self) -> Tuple[Any, ...]: ...
    @property
    def now_s(self) -> float:
        """When the ACK that ended it was processed, seconds since the run began."""
    @property
    def rtt_min_s(self) -> float:
        """The least round trip of its ACKs, seconds."""
    @property
    def small(self) -> bool:
        """All samples came from packets below half the full size."""
    @property
    def rtt_end_s(self) -> float:
        """The round trip of a packet sent in this round, at its window, seconds."""
    @property
    def bytes(self) -> int:
        """Bytes newly acknowledged."""
    @property
    def lost(self) -> int:
        """Bytes found lost."""
    @property
    def in_flight(self) -> int:
        """The most bytes in flight just before any of its ACKs."""
    @property
    def unused(self) -> int:
        """The bytes of the window that the connection never used."""
    @property
    def app_limited(self) -> bool:
        """Every ACK of the round found the connection limited by the application."""
    @property
    def in_recovery(self) -> bool:
        """A recovery period began in this round, or lasts beyond its end."""

@final
class Loss:
    """Packets were declared lost."""

    def __new__(cls, now_s: float, bytes: int) -> Self: ...
    def __getnewargs__(self) -> Tuple[Any, ...]: ...
    @property
    def now_s(self) -> float:
        """When, seconds since the run began."""
    @property
    def bytes(self) -> int:
        """Their bytes of UDP payload."""

@final
class Congestion:
    """Packets were lost or marked: at most once in a recovery period."""

    def __new__(cls, now_s: float, cause: str, lost: int) -> Self: ...
    def __getnewargs__(self) -> Tuple[Any, ...]: ...
    @property
    def now_s(self) -> float:
        """When it was found, seconds since the run began."""
    @property
    def cause(self) -> str:
        """What shows it: "loss" or "ecn"."""
    @property
    def lost(self) -> int:
        """Bytes found lost by this detection; 0 for marks."""

@final
class PathSample:
    """What path headers measured in one round trip; what no router reported is None."""

    def __new__(
        cls,
        now_s: float,
        rtt_s: float,
        forward_queueing_s: Optional[float],
        backward_queueing_s: Optional[float],
        complete: bool,
        grant: Optional[int],
        window_change: Optional[float],
        congested: bool,
        flows: Optional[int],
    ) -> Self: ...
    def __getnewargs__(self) -> Tuple[Any, ...]: ...
    @property
    def now_s(self) -> float:
        """When the echo arrived, seconds since the run began."""
    @property
    def rtt_s(self) -> float:
        """Round trip, seconds."""
    @property
    def forward_queueing_s(self) -> Optional[float]:
        """Queueing time on the way to the peer, seconds."""
    @property
    def backward_queueing_s(self) -> Optional[float]:
        """Queueing time on the way back, seconds."""
    @property
    def complete(self) -> bool:
        """All routers in both directions seem to have reported."""
    @property
    def grant(self) -> Optional[int]:
        """Rate that routers grant (ACP, RCP), bytes per second."""
    @property
    def window_change(self) -> Optional[float]:
        """Change of the window that routers grant (XCP), bytes."""
    @property
    def congested(self) -> bool:
        """A router on the way to the peer is congested."""
    @property
    def flows(self) -> Optional[int]:
        """Flows at the most crowded link on the way to the peer."""

_Path = Union[str, PathLike[str]]
_Source = Mapping[str, Any]
_Described = Mapping[str, Mapping[str, Any]]

@final
class League:
    def __new__(
        cls,
        described: _Described,
        names: Sequence[str],
        patterns: Sequence[str],
        extent: Tuple[bool, int],
        out: _Path,
        program: Tuple[_Path, str],
    ) -> Self: ...
    def begin(self) -> List[int]: ...
    def make(self, described: _Described, number: int) -> List[str]: ...
    def write(self, described: _Described) -> Tuple[str, Path]: ...

def run(
    source: _Source,
    described: _Described,
    progress: Optional[Callable[[float], None]],
    out: Optional[_Path],
    records: Tuple[bool, bool],
    command: str,
) -> Dict[str, Any]: ...
def check(source: _Source, described: _Described) -> Tuple[str, int, float]: ...
def to_toml(json: str) -> str: ...
def controllers(described: _Described) -> Dict[str, str]: ...
def compared_flows(
    source: _Source, described: _Described, names: Sequence[str]
) -> List[Tuple[int, str, bool]]: ...
def write_comparison(
    source: _Source,
    described: _Described,
    flows: Sequence[str],
    runs: Sequence[Tuple[str, int, _Path]],
    out: _Path,
) -> Tuple[str, str]: ...
