"""keel, written from docs/algorithms/keel.md by somebody who had not seen the Rust.

For everyone who checks the specification: it reads what keel heard, a line of JSON for each event,
and writes the window in bytes after each. Times are seconds, windows bytes, rates bytes per second.
It leaves out what routers report."""
import json, math, sys
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Deque, List, Optional, Tuple

BETA, C = 0.7, 0.4
OLD = 10.0  # seconds after which a round trip is old
ALPHA = 3 * (1 - BETA) / (1 + BETA)

HAIR = 5e-10  # seconds: times are whole nanoseconds, and their differences here are not quite

def clamp(x: float, a: float, b: float) -> float: return max(a, min(x, b))
def upper_median(xs: List[float]) -> float: return sorted(xs)[len(xs) // 2]

def followed(before: float, after: float, expected: float) -> float:
    if min(before, after, expected) <= 0: return 0.5
    return math.log(before / after) / max(math.log(before / expected), 0.01)

def follows(before: float, after: float, expected: float) -> bool: return followed(before, after, expected) > 0.7

def line_deviation(points: List[Tuple[float, float]]) -> float:
    """Standard deviation about the least-squares line."""
    n = len(points)
    mt = sum(t for t, _ in points) / n
    my = sum(y for _, y in points) / n
    stt = sum((t - mt) ** 2 for t, _ in points)
    slope = sum((t - mt) * (y - my) for t, y in points) / stt if stt > 0 else 0.0
    return math.sqrt(sum((y - my - slope * (t - mt)) ** 2 for t, y in points) / n)

class Extreme:
    """The greatest (or least) value of the last while."""
    def __init__(self, better: Callable[[float, float], bool]) -> None:
        self.better = better
        self.items: Deque[Tuple[float, float]] = deque()
    def add(self, now: float, value: float) -> None:
        while self.items and not self.better(self.items[-1][1], value): self.items.pop()
        self.items.append((now, value))
    def get(self, now: float, memory: float) -> Optional[float]:
        while self.items and now - self.items[0][0] > memory + HAIR:
            self.items.popleft()
        return self.items[0][1] if self.items else None

def least() -> Extreme: return Extreme(lambda a, b: a < b)

class Base:
    """The least rtt of the present and the 9 pieces of 3 s before."""
    def __init__(self) -> None:
        self.pieces: Deque[float] = deque(maxlen=10)
        self.began, self.value, self.seen = 0.0, math.inf, 0.0
    def add(self, now: float, rtt: float) -> None:
        if rtt <= self.value * 65 / 64: self.seen = now
        if not self.pieces or now - self.began >= 3 - HAIR:
            self.pieces.append(rtt); self.began = now
        else: self.pieces[-1] = min(self.pieces[-1], rtt)
        self.value = min(self.pieces)
    def set(self, value: float) -> None:
        """A longer route."""
        self.pieces, self.value = deque([value], maxlen=10), value

class Noise:
    """sigma: median deviation of pieces of at least 25 ms and 4 samples."""
    def __init__(self) -> None:
        self.piece: List[Tuple[float, float]] = []
        self.deviations: Deque[float] = deque(maxlen=16)
    def add(self, now: float, rtt: float) -> None:
        if len(self.piece) >= 4 and now - self.piece[0][0] > 0.025 + HAIR:
            self.deviations.append(line_deviation(self.piece))
            self.piece = []
        self.piece.append((now, rtt))
    @property
    def sigma(self) -> float:
        return upper_median(list(self.deviations)) if self.deviations else 0.0

class Stalls:
    """What a path holds back and then delivers at once."""
    def __init__(self) -> None:
        self.last: Optional[float] = None
        self.open: Optional[List[float]] = None  # its length, its end, bytes that are still missing
        self.past: List[Tuple[float, float]] = []  # when it was proven, its length
        self.rates: List[Tuple[float, float]] = []
    def add(self, e: dict, base: float, bw: float, packet: int) -> None:
        now = e["now"]
        self.past = [(at, length) for at, length in self.past if now - at <= 2 + HAIR]
        self.rates = [(at, rate) for at, rate in self.rates if now - at <= 2 + HAIR and rate > bw]
        self.rates.append((now, bw))
        gap = now - self.last if self.last is not None else 0.0
        self.last = now
        if self.open and now > self.open[1] + HAIR: self.open = None
        if not self.open and e["rtt"] is not None:
            length = min(gap, e["rtt"] - base)
            if 0.004 < length <= 0.2:
                held = min(self.rate * length, e["in_flight"])
                self.open = [length, now + length / 4, max(held / 2, 8 * packet)]
        if self.open:
            self.open[2] -= e["bytes"]
            if self.open[2] <= 0:
                self.past.append((now, self.open[0]))
                self.open = None
    @property
    def rate(self) -> float: return max((rate for _, rate in self.rates), default=0.0)
    def floor(self, base: float, own: float) -> float:
        longest = max((length for _, length in self.past), default=0.0)
        return self.rate * (base + longest) if longest > max(2 * own, base / 8) else 0.0

@dataclass
class Round:
    began: float
    total: int  # acknowledged when it began
    in_flight: int = 0; acked: int = 0
    is_lossy: bool = False; is_used: bool = False
    length: float = 0.0; rate: float = 0.0

class Cubic:
    """RFC 9438's curve from `window` towards `w_max`, in bytes."""
    def __init__(self, now: float, window: float, w_max: float, packet: int) -> None:
        self.w_max = max(w_max, window)
        self.k = ((self.w_max - window) / packet / C) ** (1 / 3)
        self.began, self.packet, self.start = now, packet, window
    def at(self, now: float, rtt: float, reno_limit: float = math.inf) -> float:
        cubic = self.w_max + C * self.packet * (now + rtt - self.began - self.k) ** 3
        reno = self.start + ALPHA * self.packet * (now - self.began) / rtt
        return max(cubic, min(reno, reno_limit))

@dataclass
class Search:
    top: float; top_standing: float; sent: float; target: float
    others: bool = False
    suspicious: int = 0; rounds: int = 0; at_least: int = 0
    reference: Optional[Tuple[float, float]] = None  # window, standing

@dataclass
class Trial:
    window: float; share: float
    rate: Optional[float] = None

class State(Enum):
    START, DRAIN, TRACK, HOLD, SCALE = range(5)

class Keel:
    def __init__(self, mtu: int, now: float) -> None:
        self.packet = mtu
        # measurements
        self.srtt: Optional[float] = None
        self.last_rtt = 0.0
        self.recent: Deque[float] = deque(maxlen=8)
        self.stands_of, self.standing = least(), 0.0
        self.used = False  # this ACK came with a window in use
        self.stood: List[Tuple[float, float]] = []  # standing and time of rounds that are not old
        self.low_at = now
        self.base_of, self.noise, self.stalls = Base(), Noise(), Stalls()
        self.rates: Deque[float] = deque([0.0], maxlen=7)  # the greatest sample of each round
        self.round = Round(now, 0)
        # losses: acknowledged and lost packets since the last judgement, and of the last one
        self.acked = self.lost_ = self.last_acked = self.last_lost = self.path = 0.0
        self.share = self.rows = self.short_lost = self.last_short = 0.0
        self.wrong_at = -math.inf
        self.trial: Optional[Trial] = None
        self.part = 1.0
        self.first_room: Optional[float] = None
        self.last_room, self.room_rounds, self.to = now, 0, 0.0
        self.calm = 0
        self.hold: Optional[Cubic] = None
        # marks: of the virtual round that goes on, and what they left
        self.ect1, self.came, self.packets, self.marked, self.virtual_round = False, False, 0, 0, 0.0
        self.alpha: Optional[float] = None
        self.acked_at = math.inf  # the last ACK
        self.news = 0  # virtual rounds that alpha has taken in
        self.reduced: Optional[float] = None
        self.at_mark, self.clean, self.suspicion, self.evidence = 0.0, 0, 0, 0
        self.begin(float(min(10 * mtu, max(2 * mtu, 14720))))
    def begin(self, window: float) -> None:
        """START."""
        self.window, self.state, self.slow, self.growth = window, State.START, 0, 0
        self.last_rate = self.noise_before = 0.0
        self.search: Optional[Search] = None
        self.curve: Optional[Cubic] = None
        self.making: Optional[Tuple[float, float]] = None  # window and standing before room was made
        self.rise: Optional[Tuple[float, float]] = None  # the same before HOLD began
        self.asks = False  # whether the queue is of a router that marks
    # -- measurements ---------------------------------------------------------------------------------
    @property
    def base(self) -> float: return self.base_of.value
    @property
    def bw(self) -> float: return max(self.rates)  # 0 if there is none
    @property
    def bdp(self) -> float: return self.bw * self.base if self.bw > 0 and self.base < math.inf else 0.0
    @property
    def span(self) -> float:
        assert self.srtt is not None
        return max(self.srtt / 2, min(0.025, 8 * self.srtt))
    @property
    def short(self) -> float: return max(self.base / 20, min(0.004, self.base))
    @property
    def jitter(self) -> float: return 5.25 * self.noise.sigma
    @property
    def noisy(self) -> float:
        """The longest queue that is short, with jitter."""
        return self.short + min(self.jitter, self.base / 2)
    @property
    def own(self) -> float:
        p = self.packet / self.bw
        return min(max(4 * math.sqrt(self.bw / 625000), 2.5) * p, max(self.base / 2, 4 * p), 1.0)
    @property
    def target(self) -> float:
        target = self.part * (self.own + self.jitter) if self.bw > 0 else 0.020
        return min(target, self.search.target) if self.search else target
    @property
    def queue(self) -> float: return self.standing - self.base if self.srtt is not None else 0.0
    @property
    def stands(self) -> bool: return self.queue > self.target
    @property
    def delayed(self) -> bool:
        noise = self.noise_before if self.state is State.START else 0.0
        return len(self.recent) == 8 and min(self.recent) > self.base + self.short + noise
    @property
    def min_window(self) -> int: return 2 * self.packet
    @property
    def floor(self) -> float: return self.stalls.floor(self.base, self.own) if self.bw > 0 else 0.0
    def measure(self, e: dict) -> None:
        now, rtt = e["now"], e["rtt"]
        if rtt is not None:
            self.srtt = rtt if self.srtt is None else 7 / 8 * self.srtt + rtt / 8
            previous, self.last_rtt = self.last_rtt, rtt
            self.recent.append(rtt)
            self.stands_of.add(now, rtt)
            self.standing = self.stands_of.get(now, self.span) or rtt
            before = self.base
            self.base_of.add(now, max(rtt, previous) if self.known else rtt)
            if self.base < before and self.known and self.state in (State.SCALE, State.TRACK) and not self.making:
                self.window = max(self.window * self.base / before, min(self.window, 4 * self.packet))
            held = e["packets"] == 1 and now - self.acked_at >= 0.025 - HAIR and self.state is not State.START
            if not held: self.noise.add(now, rtt)
            self.acked_at = now
        round = self.round
        round.acked += e["bytes"]
        round.in_flight = max(round.in_flight, e["in_flight"])
        slack = self.window - e["in_flight"]
        self.used = not e["app_limited"] and slack <= 0.1 * self.window + 2 * self.packet
        round.is_used |= self.used
        self.acked += e["bytes"] / self.packet
        self.stalls.add(e, self.base, self.bw, self.packet)
        self.sample = 0.0
        if e["total"] is None: return
        delivered, interval = e["total"] - e["before"], max(e["send_interval"], e["ack_interval"])
        sample = delivered / interval if interval > 0 else 0.0
        self.sample = sample if not e["was_limited"] or sample > self.bw else 0.0
    # -- events ---------------------------------------------------------------------------------------
    def ack(self, e: dict) -> None:
        now = e["now"]
        self.measure(e)
        if self.state is State.START: self.start_ack(e)
        elif self.state is State.DRAIN: self.drain_ack(e)
        self.marks(e)
        self.rates[-1] = max(self.rates[-1], self.sample)
        round = self.round
        if e["total"] is None or self.srtt is None: return
        if e["before"] >= round.total and now - round.began >= self.span - HAIR and now > round.began:
            round.length = now - round.began
            round.rate = round.acked / round.length
            self.stood.append((self.standing, -now))
            self.stood = [one for one in self.stood if now + one[1] <= OLD + HAIR]
            self.low_at = -min(self.stood)[1]
            if self.state is not State.SCALE: self.new_virtual_round()
            if self.rates[-1] > 0 and len(self.rates) == 7: self.rates.popleft()
            self.round_ends(now, round)
            self.round = Round(now, e["total"])
            if self.rates[-1] > 0: self.rates.append(0.0)
    def lost(self, nbytes: int) -> None:
        self.lost_ += nbytes / self.packet
        is_short = self.last_rtt - self.base <= self.short
        if is_short: self.short_lost += nbytes / self.packet
        self.rows += 1 if is_short else nbytes / self.packet
        self.round.is_lossy = True
    def congestion(self, now: float, cause: str) -> None:
        if self.state is State.START and cause == "mark": self.leave_start(now)
        elif self.state is State.SCALE:
            a, l = self.acked + self.last_acked, self.lost_ + self.last_lost
            small = self.window < 10 * self.packet and l > self.tolerated(self.stands) * (a + l)
            if cause == "loss" and (small or self.delayed): self.cut(now)
        elif self.state is State.TRACK and self.making: pass
        elif self.state is State.TRACK and cause == "mark":
            self.window, self.growth = max(0.85 * self.window, 4 * self.packet), 0
        elif self.state is State.TRACK and self.window < 10 * self.packet:
            a, l = self.acked + self.last_acked, self.lost_ + self.last_lost
            if l > self.tolerated(self.stands) * (a + l):
                before = self.window
                self.window = max(0.7 * before, self.min_window)
                self.curve, self.growth = Cubic(now, self.window, before, self.packet), 0
        elif self.state is State.HOLD and cause == "loss" and not self.exceeds_path(): pass
        elif self.state is State.HOLD and self.making: self.room_void = True
        elif self.state is State.HOLD:
            assert self.hold
            self.rise = None
            before = self.window
            w_max = before * (1 + BETA) / 2 if before < self.hold.w_max else before
            self.window = max(BETA * before, self.min_window)
            self.hold = Cubic(now, self.window, w_max, self.packet)
    def mtu(self, mtu: int) -> None:
        self.packet = mtu
        self.window = max(self.window, self.min_window)
    # -- START and DRAIN ------------------------------------------------------------------------------
    def start_ack(self, e: dict) -> None:
        packet = self.packet
        slower = e["total"] is not None and e["ack_interval"] > 1.25 * e["send_interval"]
        if self.delayed and (slower or self.slow >= 3): self.leave_start(e["now"])
        elif not e["app_limited"] and 2 * e["in_flight"] >= self.window:
            gain = 0.5 if self.delayed else 2 if self.window < 100 * packet else 1
            grown = self.window + gain * e["after_recovery"]
            reach = min(1.8 * self.bdp, self.bdp + 400 * packet)
            limited = self.delayed or reach > 100 * packet
            self.window = min(grown, max(reach, self.window)) if limited else grown
    def leave_start(self, now: float) -> None:
        self.to = max(self.bdp, 4 * self.packet, min(self.window, self.floor))
        self.state = State.DRAIN
    def drain_ack(self, e: dict) -> None:
        self.window = max(self.to, min(self.window, e["in_flight"]) - e["bytes"] / 2)
        if self.window <= self.to:
            if e["total"] is not None:
                self.round = Round(e["now"], e["total"], e["in_flight"], e["bytes"], False, self.used)
            self.acked, self.lost_, self.rows, self.short_lost, self.trial = 0.0, 0.0, 0.0, 0.0, None
            self.first_room = e["now"] + 2
            self.reduced = e["now"]
            self.new_virtual_round()
            self.track()
    def track(self) -> None:
        self.state, self.search, self.curve, self.growth, self.part = State.TRACK, None, None, 0, 1.0
    # -- rounds ----------------------------------------------------------------------------------------
    def round_ends(self, now: float, round: Round) -> None:
        if self.state is State.START:
            self.slow = self.slow + 1 if self.delayed else 0
            self.noise_before = min(self.jitter, self.base / 2)
            is_flat, self.last_rate = round.rate < 1.25 * self.last_rate, round.rate
            if self.judge(False) and is_flat: self.leave_start(now)
        elif self.state is State.TRACK and not self.making: self.track_round(now, round)
        elif self.state is State.SCALE: self.scale_round(now, round)
        elif self.state is State.TRACK:
            self.room_rounds += 1
            if self.room_rounds >= 2:
                assert self.making
                window, standing = self.making
                expected = max(self.base, standing * self.window / window)
                follows = self.window > 0.75 * window or followed(standing, self.standing, expected) >= 0.15
                self.window, self.making, self.search = window, None, None
                if self.asks and follows:
                    self.evidence += 1
                    if self.evidence >= 3: self.classic(); self.cut(now)
                elif self.asks:
                    self.suspicion = self.evidence = 0
                    self.longer(now)
        elif self.state is State.HOLD:
            answered = round.is_lossy and self.exceeds_path()
            self.judge(True)
            self.hold_round(now, round, answered)
    def track_round(self, now: float, round: Round) -> None:
        packet, target, stands = self.packet, self.target, self.stands  # as the round ended
        if self.answer_losses(now, round, stands): return
        if not round.is_lossy: self.part = min(1.005 * self.part, 1.0)
        elif 2 * self.queue > target: self.part = max(0.85 * self.part, 0.5)
        if not round.is_used: self.growth = 0
        elif stands and not self.known: self.growth = 0; self.above_target(now, target)
        elif stands and self.queue > self.base / 8: self.ask_for_marks(now)
        elif stands: self.grow(now, round, target)
        elif self.room_is_due(now):
            share = max(0.9 * self.base / self.standing, 0.5)
            self.make_room(now)
            self.window = max(self.window * share, 4 * packet, min(self.window, self.floor))
            self.asks = False
        elif self.queue < 0.75 * target:
            self.ease()
            self.grow(now, round, target)
        else: self.growth = 0
    def grow(self, now: float, round: Round, target: float) -> None:
        packet = self.packet
        self.growth += 1
        row = min(self.growth, 16 if 2 * self.queue < target else 4)
        step = max(packet, min(2 ** (row - 1) * packet, self.window / (16 if self.ect1 and self.came else 4), 400 * packet))
        floor = self.floor * min(round.rate / self.bw, 1.0) if self.bw > 0 else 0.0
        goal = max(self.window + step, min(2 * self.window, floor))
        if self.curve:
            limit = self.curve.w_max if self.window >= 10 * packet else math.inf
            goal = min(goal, max(self.window, self.curve.at(now, self.standing, limit)))
        self.window = goal
    def room_is_due(self, now: float) -> bool:
        """Asking uses up the first room."""
        if self.first_room is not None and now >= self.first_room - HAIR:
            self.first_room = None
            return True
        return now - self.base_of.seen > OLD + HAIR and now - self.last_room > OLD / 2 + HAIR
    def make_room(self, now: float) -> None:
        self.last_room, self.room_rounds, self.making = now, 0, (self.window, self.standing)
    def longer(self, now: float) -> None:
        self.window *= clamp(self.standing / self.base, 1.0, 2.0)
        self.curve = None
        self.base_of.set(self.standing)
        self.wrong_at = now
    # -- the search ------------------------------------------------------------------------------------
    def ease(self) -> None:
        search = self.search
        if search:
            search.suspicious -= 2
            if search.suspicious <= 0: self.search = None
            elif not search.others: search.rounds, search.reference = 0, None
    def above_target(self, now: float, target: float) -> None:
        window, standing, queue, base, packet = self.window, self.standing, self.queue, self.base, self.packet
        if self.search is None: self.search = Search(window, standing, window, target)
        search = self.search
        if queue > 2 * target or (search.others and window <= 0.75 * search.top): search.suspicious += 1
        search.rounds += 1
        ref = search.reference
        if ref is None:
            if search.rounds >= 3: search.reference = (search.sent, standing)
        elif search.sent > 0.75 * ref[0]: search.reference = (ref[0], max(ref[1], standing))
        else:
            search.others = not follows(ref[1], standing, max(base, ref[1] * search.sent / ref[0]))
            if not search.others: search.reference = (search.sent, standing)
        search.sent = window
        if window <= 4 * packet:
            search.at_least += 1
            if search.at_least >= 8: search.others = True
        if search.others and search.suspicious >= 8:
            self.window = max(window, search.top)
            w_max = search.top * max(standing / search.top_standing, 1.0)
            self.hold = Cubic(now, self.window, w_max, packet)
            self.calm, self.state, self.search = 0, State.HOLD, None
            self.room_rounds, self.room_void, self.moved = 0, False, False
            self.rise = (window, standing) if window <= 0.75 * self.window else None
        else:
            give = window * max((base + 0.9 * target) / standing, 0.7)
            half = min(0.5 * search.top, window) if search.others else 0.0
            self.window = max(give, half, min(window, self.floor), 4 * packet)
    # -- HOLD -----------------------------------------------------------------------------------------
    def hold_round(self, now: float, round: Round, answered: bool) -> None:
        assert self.hold and self.srtt is not None
        step = self.rise or self.making
        if step:
            self.room_rounds += 1
            before, standing = step
            moved = standing - self.standing if self.making else self.standing - standing
            self.moved |= moved > 0.01 * standing + HAIR or -moved > 0.05 * standing + HAIR
            if self.room_rounds >= 3:
                is_room, self.rise, self.making = bool(self.making), None, None
                self.window = max(before, self.window)
                if self.room_void: return
                if not self.moved and self.window >= 10 * self.packet:
                    self.track()
                    self.longer(now)
                elif is_room and follows(standing, self.standing, max(self.base, standing * 0.5)):
                    self.window = before * clamp((self.base + self.target) / standing, 0.5, 1.0)
                    self.track()
            return
        self.calm = self.calm + 1 if self.queue < self.noisy and self.window >= 0.9 * self.hold.w_max else 0
        if self.calm >= 2: self.track()
        elif round.in_flight < 0.5 * self.window: self.hold.began += round.length
        elif now > self.low_at + OLD / 2 + HAIR > self.last_room + 2 * HAIR and not answered:
            self.make_room(now)
            self.room_void = self.moved = False
            self.window = max(0.5 * self.window, self.min_window)
        else:
            self.window = clamp(self.hold.at(now, self.srtt), self.window, 1.5 * self.window)
    # -- marks ----------------------------------------------------------------------------------------
    def new_virtual_round(self) -> None: self.packets, self.marked, self.virtual_round = 0, 0, 0.0
    def cut(self, now: float) -> None:
        before = self.window
        self.window = max(0.7 * before, self.min_window)
        self.curve, self.growth = Cubic(now, self.window, before, self.packet), 0
    @property
    def known(self) -> bool: return self.ect1 and self.alpha is not None
    def classic(self) -> None: self.alpha, self.came, self.suspicion, self.evidence = None, False, 0, 0
    def ask_for_marks(self, now: float) -> None:
        self.make_room(now)
        self.asks, self.state = True, State.TRACK
        self.window = max(0.5 * self.window, 4 * self.packet)
    def marks(self, e: dict) -> None:
        now, self.ect1 = e["now"], e["ect1"]
        answered = self.reduced is not None and e["sent"] <= self.reduced
        self.came |= self.ect1 and e["marked"] > 0
        if not self.ect1 or self.alpha is None and answered: return
        self.packets, self.marked = self.packets + e["packets"], self.marked + e["marked"]
        if answered or not e["marked"]: return
        if self.state is State.START: self.leave_start(now)
        elif self.state is State.TRACK and not self.making: self.state = State.SCALE
        elif self.state is State.HOLD: self.classic(); self.congestion(now, "mark")
        if self.state is State.SCALE and self.alpha is not None:
            if self.reduced is None or now - self.reduced >= 0.025:
                self.reduced, self.at_mark = now, self.window
                self.window = max((1 - self.alpha / 2) * self.window, self.min_window)
    def suspect(self, share: float, round: Round) -> bool:
        """Whether room should test whose the queue is."""
        if self.suspicion == 0: self.evidence = 0
        longest = 0.002 + self.jitter + 3 * self.packet / max(self.bw, self.packet)
        is_used = round.in_flight >= 0.5 * self.window
        other = is_used and self.queue > longest and share < 0.5
        if other:
            self.suspicion += min(int(self.queue / longest), 3)
            if share == 0: self.suspicion = min(self.suspicion, 3)
        elif share > 0: self.suspicion = max(self.suspicion - 1, 0)
        return other and (self.suspicion >= 4 or self.evidence > 0)
    def scale_round(self, now: float, round: Round) -> None:
        assert self.srtt is not None
        if not self.ect1: self.track(); return
        if self.answer_losses(now, round, self.stands): return
        self.virtual_round += round.length
        if self.virtual_round < 0.025: return
        share = min(self.marked / max(self.packets, 1), 1.0)
        self.new_virtual_round()
        if self.suspect(share, round): self.ask_for_marks(now); return
        if self.alpha is None:
            self.alpha, self.news, self.reduced, self.at_mark = share, 1, now, self.window
            self.window = max((1 - share / 2) * self.window, self.min_window)
            return
        self.news += 1
        self.alpha += (share - self.alpha) / min(self.news, 16)
        back = 0.0
        if share > 0: self.clean = 0
        else:
            self.at_mark += min(self.window - self.at_mark, 0.0) / 16
            if self.window > self.at_mark: self.clean += 1
            if self.clean >= 4: self.clean = 0; self.track(); return
            back = (self.at_mark - self.window) / 2
        if round.in_flight >= 0.5 * self.window:
            self.window += max(0.7 * self.packet * min(self.srtt / 0.025, 1) * (1 - share), back)
    # -- losses ---------------------------------------------------------------------------------------
    def tolerated(self, stands: bool) -> float: return max(2 * (0.0 if stands else self.path), 0.02)
    def exceeds_path(self) -> bool:
        a, l = self.acked + self.last_acked, self.lost_ + self.last_lost
        m = 2 * self.path * (a + l)
        return l > m + 2 * math.sqrt(m)
    def judge(self, stands: bool) -> bool:
        """Whether losses are in excess."""
        a, l = self.acked, self.lost_
        t = self.tolerated(stands) * (a + l)
        row = max(l / self.rows, 1.0) if self.rows else 1.0
        by_chance = [t + 2 * math.sqrt(t * r) + 2 * r for r in (1.0, row)]
        excess = l > max(by_chance[0], min(by_chance[1], 0.22 * (a + l)))
        if excess or a + l >= 250:
            self.share = l / (a + l)
            self.last_acked, self.last_lost, self.acked, self.lost_ = a, l, 0.0, 0.0
            self.last_short, self.rows, self.short_lost = self.short_lost, 0.0, 0.0
            if self.share < self.path: self.path += (self.share - self.path) / 8
            elif not stands and not excess:
                own = self.path + (self.last_short / (a + l) - self.path) / 4
                self.path = max(self.path, min(own, 0.01))
        return excess
    def answer_losses(self, now: float, round: Round, stands: bool) -> bool:
        excess = self.judge(stands)
        share, trial = self.share, self.trial
        if trial and (stands or not excess and share <= self.tolerated(stands)):
            self.trial = trial = None
        if trial and trial.rate is None and round.is_used: trial.rate = round.rate
        if not excess: return False
        if not stands and self.path > 0.02: self.path, self.wrong_at = 0.0, now
        if stands: pass
        elif trial and (self.window <= 0.75 * trial.window or trial.window < 10 * self.packet):
            self.trial = None
            small = trial.window < 10 * self.packet
            expected = (trial.rate or 0.0) * self.window / trial.window
            short = 2 * self.last_short >= self.last_lost
            if ((small or follows(trial.rate or 0.0, round.rate, expected)) and short
                    and max(share, trial.share) <= 0.22 and now - self.wrong_at >= 60 - HAIR):
                self.path = (share + trial.share) / 2
                self.window, self.curve = max(self.window, trial.window), None
                return True
        elif trial is None or self.window > trial.window: self.trial = Trial(self.window, share)
        delivered = min(self.window, round.rate * self.standing)
        c = 0.7 if share > self.tolerated(stands) + 0.05 else 0.85
        self.window = max(c * self.window, 0.9 * delivered, self.min_window)
        self.curve, self.growth = Cubic(now, self.window, delivered, self.packet), 0
        if self.queue > 2 * self.target: self.curve = None
        return True

def step(keel: Keel, e: Any) -> None:
    kind = e["e"]
    if kind == "ack": keel.ack(e)
    elif kind == "lost": keel.lost(e["bytes"])
    elif kind == "congestion": keel.congestion(e["now"], e["cause"])
    elif kind == "persistent": keel.begin(2.0 * keel.packet)
    elif kind == "mtu": keel.mtu(e["mtu"])
    else: raise ValueError(kind)

def main() -> None:
    keel: Optional[Keel] = None
    for line in sys.stdin:
        e = json.loads(line)
        if keel is None: keel = Keel(e["mtu"], e["now"])
        else: step(keel, e)
        print(int(keel.window))

if __name__ == "__main__": main()
