"""A camera and a viewer that measure: MPEG-TS whose packets say of which picture they are and when
it was taken.

  pictures.py send TO --rate BPS --seconds N [--keys N]   to - (standard output) or HOST:PORT (UDP)
  pictures.py receive FROM --seconds N --sent N           from - (standard input) or PORT (UDP)

The viewer prints one line: pictures that can be decoded, in percent of those sent, and 50th and 95th
percentile of the time from capture to the last byte, in milliseconds, by one clock (CLOCK_MONOTONIC).
"""
import argparse
import binascii
import os
import socket
import struct
import sys
import time

PACKET, PID, MAP, RATE = 188, 0x100, 0x1000, 25
MARK = b"PICTURE "


def packet(pid, begins, counter, content):
    """A packet, filled by its adaptation field."""
    field = PACKET - 4 - len(content)
    head = struct.pack(">BHB", 0x47, begins << 14 | pid, (0x30 if field else 0x10) | counter % 16)
    if field:
        head += bytes([field - 1]) + (b"\0" + b"\xff" * (field - 2) if field > 1 else b"")
    return head + content


def table(pid, name, number, content):
    section = struct.pack(">BHHBBB", name, 0xB000 | len(content) + 9, number, 0xC1, 0, 0) + content
    section += struct.pack(">I", crc(section))
    return packet(pid, 1, 0, (b"\0" + section).ljust(PACKET - 4, b"\xff"))


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFFFFFF
    return value


TABLES = table(0, 0, 1, struct.pack(">HH", 1, 0xE000 | MAP)) + table(
    MAP, 2, 1, struct.pack(">HHBHH", 0xE000 | PID, 0xF000, 0x1B, 0xE000 | PID, 0xF000))


def picture(number, is_key, size, counter):
    """One PES packet: an H.264 picture in whose every packet stand its number, place and time."""
    stamp = number * 90_000 // RATE
    low = [(stamp >> 14 & 0xFFFE) | 1, (stamp << 1 & 0xFFFE) | 1]
    pts = struct.pack(">BHH", 0x21 | stamp >> 29 & 14, *low)
    slice_ = b"\0\0\1" + (b"\x65" if is_key else b"\x41") + b"\x88"
    head = b"\0\0\1\xe0\0\0\x80\x80\5" + pts + slice_
    now = time.monotonic_ns()
    count = max(1, size // PACKET)
    for place in range(count):
        note = MARK + struct.pack(">IIIQ", number, place, count, now)
        # No start code may come about.
        note = binascii.hexlify(note[8:])
        body = (head if place == 0 else b"") + MARK + note
        yield packet(PID, place == 0, counter + place, body.ljust(PACKET - 4, b"x"))


def send(args):
    if args.place == "-":
        put = lambda data: os.write(1, data)
    else:
        host, port = args.place.rsplit(":", 1)
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        def put(data):
            for at in range(0, len(data), 7 * PACKET):
                out.sendto(data[at:at + 7 * PACKET], (host, int(port)))
    begin, counter, rate = time.monotonic(), 0, args.rate
    for number in range(round(args.seconds * RATE)):
        time.sleep(max(0, begin + number / RATE - time.monotonic()))
        if args.follow:
            text = open(args.follow).read().strip()
            rate = int(text) if text else rate
        packets = list(picture(number, number % args.keys == 0, rate // 8 // RATE, counter))
        counter += len(packets)
        data = TABLES + b"".join(packets)
        while data:
            data = data[put(data) or len(data):]


def receive(args):
    if args.place == "-":
        take = lambda: os.read(0, 65536)
    else:
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        into.bind(("0.0.0.0", int(args.place)))
        into.settimeout(1)
        def take():
            try:
                return into.recv(65536)
            except TimeoutError:
                return None
    end, have, delays, rest = time.monotonic() + args.seconds, {}, {}, b""
    while time.monotonic() < end:
        data = take()
        if data == b"":
            break
        rest += data or b""
        while len(rest) >= PACKET:
            one, rest = rest[:PACKET], rest[PACKET:]
            at = one.find(MARK)
            if at < 0:
                continue
            note = binascii.unhexlify(one[at + 8:at + 48])
            number, place, count, taken = struct.unpack(">IIIQ", note)
            places = have.setdefault(number, set())
            places.add(place)
            if len(places) == count and number not in delays:
                delays[number] = (time.monotonic_ns() - taken) / 1e6
    sent = round(args.sent * RATE)
    # What refers to a picture that is missing cannot be decoded.
    whole, good = 0, False
    for number in range(sent):
        good = number in delays and (good or number % args.keys == 0)
        whole += good
    ranked = sorted(delays.values())

    def rank(share):
        return ranked[max(0, -(-len(ranked) * share // 100) - 1)] if ranked else float("nan")

    share = f"{100 * whole / sent:.1f} % decodable"
    print(f"{share}, delay p50 {rank(50):.0f} ms, p95 {rank(95):.0f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["send", "receive"])
    parser.add_argument("place")
    parser.add_argument("--rate", type=int, default=5_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--sent", type=float, default=20)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--follow", help="file with the rate to use")
    args = parser.parse_args()
    try:
        (send if args.what == "send" else receive)(args)
    except BrokenPipeError:
        sys.exit(0)


main()
