#!/usr/bin/env python3
"""Writes path-header.json: the test vectors of docs/path-header.md.

A second implementation of the codec, written from the specification and sharing nothing with the
one in Rust, so that an error must be made twice to go unseen. Run it from this directory after a
change of the specification:

    python3 path-header.py > path-header.json
"""

import ipaddress
import json
import struct

MAGIC = bytes.fromhex("0ed2b74c")
KINDS = {"acp": 1, "rcp": 2, "xcp": 3}
FLAGS = {"stamped": 8, "gap": 4, "congested": 2, "offered": 1}


# Numbers


def code(value, mantissa, width, nearest):
    """By search in the list of all values: slow, and unlike any bit arithmetic."""
    values = [decoded(c, mantissa) for c in range(1 << width)]
    low = max(c for c in range(1 << width) if values[c] <= value)
    if nearest and low + 1 < len(values) and values[low + 1] - value <= value - values[low]:
        return low + 1
    return low


def decoded(c, mantissa):
    exponent, rest = divmod(c, 2**mantissa)
    return rest if exponent == 0 else (2**mantissa + rest) * 2 ** (exponent - 1)


def rate(value):
    return 0xFFFF if value is None else min(code(value, 11, 16, False), 0xFFFE)


def time(micros):
    return min(code(micros, 12, 16, True), 0xFFFE)


def size(value):
    return code(value, 11, 16, True)


def count(flows):
    return code(flows, 4, 8, True)


def change(value):
    magnitude = code(abs(value), 10, 15, True)
    return (-magnitude if value < 0 else magnitude) % 65536


# The header


def flags(names):
    return sum(FLAGS[name] for name in names)


def feedback(kind, value):
    return change(value) if kind == "xcp" else rate(value)


def header(f):
    echo = f.get("echo")
    e = echo or {"timestamp": 0, "phase": 0, "queueing_us": 0, "flows": 0, "flags": []}
    if f["kind"] == "xcp":
        shared = struct.pack(">H", size(f["window_bytes"]))
    else:
        shared = bytes([count(f["flows"]), count(e["flows"])])
    out = MAGIC
    out += bytes([1 << 6 | KINDS[f["kind"]] << 3 | 7, flags(f["flags"]) << 4 | flags(e["flags"])])
    out += f["queueing_us"].to_bytes(3, "big")
    out += bytes([f["phase"] << 7 | e["phase"] << 6 | f["hop_limit"]])
    out += struct.pack(">H", feedback(f["kind"], f["feedback"]))
    out += shared
    out += struct.pack(">H", time(f["rtt_us"]))
    out += f["timestamp"].to_bytes(3, "big") + e["timestamp"].to_bytes(3, "big")
    out += struct.pack(">H", time(echo["held_us"]) if echo else 0xFFFF)
    out += struct.pack(">H", time(e["queueing_us"]))
    out += struct.pack(">H", feedback(echo["kind"], echo["feedback"]) if echo else 0)
    out += bytes.fromhex(f["tag"])
    assert len(out) == 32
    return out


def covered(h):
    c = bytearray(h[:28])
    c[5] &= 0x0F
    c[6:9] = bytes(3)
    c[9] &= 0xC0
    c[10:12] = bytes(2)
    if c[4] >> 3 & 7 != KINDS["xcp"]:
        c[12] = 0
    return bytes(c)


# The tag


def siphash(key, message):
    """SipHash-2-4 (Aumasson, Bernstein, 2012), 64 bits as bytes."""
    m64 = (1 << 64) - 1
    k0, k1 = struct.unpack("<QQ", key)
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rotate(x, b):
        return (x << b | x >> 64 - b) & m64

    def rounds(n):
        for _ in range(n):
            v[0] = (v[0] + v[1]) & m64
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & m64
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & m64
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & m64
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return struct.pack("<Q", v[0] ^ v[1] ^ v[2] ^ v[3])


assert siphash(bytes(range(16)), bytes(range(15))).hex() == "e545be4961ca29a1"  # the paper's


def keys(master, generation):
    block = [siphash(master, struct.pack(">QB", generation, i)) for i in range(3)]
    return block[0] + block[1], int.from_bytes(block[2][:3], "big")


def tagged(master, generation, sent_us, fields):
    key, offset = keys(master, generation)
    fields = dict(fields, phase=generation % 2, timestamp=(sent_us + offset) % 2**24)
    cover = covered(header(dict(fields, tag="00000000")))
    tag = siphash(key, struct.pack(">Q", sent_us) + cover)[:4]
    return {
        "master": master.hex(),
        "generation": generation,
        "key": key.hex(),
        "offset": offset,
        "sent_us": sent_us,
        "covered": cover.hex(),
        "tag": tag.hex(),
        "header": header(dict(fields, tag=tag.hex())).hex(),
    }


# Packets


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(word for (word,) in struct.iter_unpack(">H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def datagram(source, destination, payload, summed=True):
    length = 8 + len(payload)
    head = struct.pack(">HHHH", 50000, 443, length, 0)
    pseudo = source.packed + destination.packed
    pseudo += struct.pack(">IHH", length, 0, 17)  # in sum the same as IPv4's
    value = (checksum(pseudo + head + payload) or 0xFFFF) if summed else 0
    return head[:6] + struct.pack(">H", value) + payload


def ipv4(payload, summed=True, options=b"", flags_offset=0x4000, surplus=b""):
    source, destination = map(ipaddress.ip_address, ("192.0.2.1", "198.51.100.2"))
    udp = datagram(source, destination, payload, summed) + surplus
    words = 5 + len(options) // 4
    total = words * 4 + len(udp)
    head = struct.pack(">BBHHHBBH", 0x40 | words, 2, total, 0, flags_offset, 60, 17, 0)
    head += source.packed + destination.packed + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + udp


def ipv6(payload, summed=True, extensions=b"", first=17):
    source, destination = map(ipaddress.ip_address, ("2001:db8::1", "2001:db8:1::2"))
    udp = datagram(source, destination, payload, summed)
    head = struct.pack(">IHBB", 0x60200000, len(extensions) + len(udp), first, 60)
    return head + source.packed + destination.packed + extensions + udp


def stamped(fields, operations):
    f = dict(fields, flags=list(fields["flags"]))

    def flag(name):
        if name not in f["flags"]:
            f["flags"].append(name)

    for operation in operations:
        ((name, value),) = operation.items()
        if name == "add_queueing_time_us":
            f["queueing_us"] = min(f["queueing_us"] + value, 2**24 - 1)
            flag("stamped")
        elif name == "record_ttl":
            if (f["hop_limit"] - value) % 64 > 1:
                flag("gap")
            f["hop_limit"] = value % 64
        elif name == "limit_rate":
            if f["kind"] != "xcp":
                f["feedback"] = value if f["feedback"] is None else min(f["feedback"], value)
                flag("offered")
        elif name == "limit_window_change_256ths":
            if f["kind"] == "xcp":
                f["feedback"] = min(f["feedback"], value)
                flag("offered")
        elif name == "mark_congested":
            flag("congested")
        elif name == "raise_contention":
            if f["kind"] != "xcp":
                f["flows"] = max(f["flows"], value)
    return f


QUIC = bytes([0x43]) + bytes(range(1, 31))  # a short header, odd in length

FIRST = {
    "kind": "acp",
    "flags": [],
    "queueing_us": 0,
    "phase": 0,
    "hop_limit": 0,
    "feedback": None,
    "flows": 0,
    "rtt_us": 0,
    "timestamp": 0x123456,
    "tag": "a1b2c3d4",
}
FULL = {
    "kind": "acp",
    "flags": ["stamped", "congested", "offered"],
    "queueing_us": 12345,
    "phase": 1,
    "hop_limit": 61,
    "feedback": 1250000,
    "flows": 50,
    "rtt_us": 41000,
    "timestamp": 0xFFFFF0,
    "echo": {
        "kind": "acp",
        "timestamp": 0xFF6000,
        "phase": 0,
        "held_us": 25000,
        "queueing_us": 9001,
        "feedback": 156250000,
        "flows": 31,
        "flags": ["stamped", "gap"],
    },
    "tag": "00ff00ff",
}
XCP = {
    "kind": "xcp",
    "flags": ["offered"],
    "queueing_us": 0xFFFFFF,
    "phase": 0,
    "hop_limit": 63,
    "feedback": -1000,
    "window_bytes": 120000,
    "rtt_us": 80000,
    "timestamp": 1,
    "echo": {
        "kind": "rcp",
        "timestamp": 0,
        "phase": 1,
        "held_us": 0,
        "queueing_us": 0,
        "feedback": 20,
        "flows": 0,
        "flags": ["stamped", "gap", "congested", "offered"],
    },
    "tag": "deadbeef",
}
SENT = dict(FIRST, hop_limit=60, rtt_us=20000)
ONE_ROUTER = [
    {"add_queueing_time_us": 6250},
    {"record_ttl": 59},
    {"limit_rate": 2500000},
    {"raise_contention": 8},
]
TWO_ROUTERS = ONE_ROUTER + [
    {"add_queueing_time_us": 40},
    {"record_ttl": 56},
    {"limit_rate": 9000000},
    {"mark_congested": True},
    {"raise_contention": 3},
]

headers = [
    ("the first header of a connection", FIRST),
    ("a header in full swing", FULL),
    ("rcp, slowest rates", dict(FULL, kind="rcp", feedback=0, flows=507904)),
    ("xcp echoing rcp", XCP),
]

stamps = []
for name, carrier, fields, operations in [
    ("one router", ipv4, SENT, ONE_ROUTER),
    ("two routers and a gap between", ipv4, SENT, TWO_ROUTERS),
    ("two routers and a gap between", ipv6, SENT, TWO_ROUTERS),
    ("values that may not move", ipv6, FULL, [
        {"limit_rate": 4000000000}, {"raise_contention": 2}, {"mark_congested": True},
        {"record_ttl": 61}, {"add_queueing_time_us": 0},
    ]),
    ("saturation", ipv4, FULL, [
        {"add_queueing_time_us": 16777000}, {"limit_rate": 0}, {"raise_contention": 500000},
    ]),
    ("a raised ttl", ipv4, FULL, [{"record_ttl": 62}]),
    ("xcp takes a window change and no rate", ipv6, XCP, [
        {"limit_rate": 1}, {"raise_contention": 9}, {"limit_window_change_256ths": 5},
        {"limit_window_change_256ths": -300000},
    ]),
]:
    stamps.append({
        "name": f"{name}, {carrier.__name__}",
        "operations": operations,
        "before": carrier(header(fields) + QUIC).hex(),
        "after": carrier(header(stamped(fields, operations)) + QUIC).hex(),
    })
stamps.append({
    "name": "ipv4 without a udp checksum",
    "operations": TWO_ROUTERS,
    "before": ipv4(header(SENT) + QUIC, summed=False).hex(),
    "after": ipv4(header(stamped(SENT, TWO_ROUTERS)) + QUIC, summed=False).hex(),
})
stamps.append({
    "name": "ipv4 with options",
    "operations": ONE_ROUTER,
    "before": ipv4(header(SENT) + QUIC, options=bytes([1, 1, 1, 0])).hex(),
    "after": ipv4(header(stamped(SENT, ONE_ROUTER)) + QUIC, options=bytes([1, 1, 1, 0])).hex(),
})

H = header(FULL)


def head(byte):
    return H[:4] + bytes([byte]) + H[5:]


payloads = [
    ("a bare quic packet", QUIC, "foreign", 0),
    ("nothing", b"", "foreign", 0),
    ("magic alone", MAGIC, "truncated", 0),
    ("one byte short", H[:31], "truncated", 0),
    ("a header and nothing behind it", H, "known", 32),
    ("a header and a packet", H + QUIC, "known", 32),
    ("a header in a header: one is taken off", H + H + QUIC, "known", 32),
    ("version 2", head(0b10001111) + QUIC, "version", 32),
    ("version 0, twelve bytes", head(0b00000010) + QUIC, "version", 12),
    ("kind 0", head(0b01000111) + QUIC, "kind", 32),
    ("kind 7, eight bytes", head(0b01111001) + QUIC, "kind", 8),
    ("acp with another length", head(0b01001110) + QUIC, "kind", 28),
    ("length of one word", head(0b01001000) + QUIC, "truncated", 0),
]
packets = [
    ("a fragment", ipv4(H + QUIC, flags_offset=0x2000), "untouchable"),
    ("a later fragment", ipv4(H + QUIC, flags_offset=0x0010), "foreign"),
    ("ipv6 without a udp checksum", ipv6(H + QUIC, summed=False), "untouchable"),
    ("ipv6 with destination options",
     ipv6(H + QUIC, extensions=bytes([17, 0, 1, 4, 0, 0, 0, 0]), first=60), "untouchable"),
    ("ipv6 with an authentication header",
     ipv6(H + QUIC, extensions=bytes([17, 1]) + bytes(10), first=51), "untouchable"),
    ("bytes behind the datagram", ipv4(H + QUIC, surplus=bytes(4)), "untouchable"),
    ("version 2", ipv4(head(0b10001111) + QUIC), "version"),
    ("kind 0", ipv6(head(0b01000111) + QUIC), "kind"),
    ("cut off", ipv4(H[:20]), "truncated"),
    ("no header", ipv6(QUIC), "foreign"),
    ("not ip", b"\xff" + ipv4(H + QUIC)[1:], "foreign"),
]

MASTER = bytes(range(0xA0, 0xB0))
vectors = {
    "magic": MAGIC.hex(),
    "numbers": {
        "rate_bytes_per_second": [
            [v, f"{rate(v):04x}"]
            for v in (0, 20, 2047, 2048, 4095, 4096, 4097, 1250000, 12500000000, 10**15, None)
        ],
        "time_us": [
            [v, f"{time(v):04x}"] for v in (0, 1, 4095, 8191, 8192, 8193, 25000, 1000000, 10**9)
        ],
        "flows": [[v, f"{count(v):02x}"] for v in (0, 1, 31, 32, 33, 100, 1000, 10000, 10**6)],
        "bytes": [[v, f"{size(v):04x}"] for v in (0, 1200, 4095, 4097, 120000, 10**9)],
        "window_change_256ths": [
            [v, f"{change(v):04x}"] for v in (0, 1, -1, 2047, 2049, -1000, -300000, 10**15, -(10**15))
        ],
    },
    "headers": [
        {"name": name, "fields": fields, "header": header(fields).hex(), "covered": covered(header(fields)).hex()}
        for name, fields in headers
    ],
    "payloads": [
        {"name": name, "payload": p.hex(), "result": result, "taken_off": taken}
        for name, p, result, taken in payloads
    ],
    "packets": [
        {"name": name, "packet": p.hex(), "result": result} for name, p, result in packets
    ],
    "stamps": stamps,
    "tags": [
        tagged(MASTER, 0, 0, FIRST),
        tagged(MASTER, 1, 123456789, FULL),
        tagged(MASTER, 2, 2**24 * 1000 + 5, XCP),
    ],
}
print(json.dumps(vectors, indent=1))
