-- Wireshark's dissector of the path header (docs/path-header.md), version 1.
--
-- Copy it into Wireshark's directory of personal Lua plugins (Help > About Wireshark > Folders), or
-- name it: tshark -X lua_script:path-header.lua -r capture.pcap
--
-- What follows the header goes to Wireshark's dissector of QUIC, which decrypts it if it is told the
-- keys (SSLKEYLOGFILE). Wireshark 3.6 or later.

local MAGIC = 0x0ed2b74c
local LENGTH = 32
local NO_LIMIT = 0xffff
local NO_ECHO = 0xffff

local GREASE, ACP, RCP, XCP = 0, 1, 2, 3
local KINDS = { [GREASE] = "grease", [ACP] = "ACP", [RCP] = "RCP", [XCP] = "XCP" }

local proto = Proto("evenkeel", "evenkeel path header")
local f = {}

-- Declares a field and returns nothing: `proto.fields` takes them all at once.
local function field(name, make, title, ...)
    f[name] = make("evenkeel." .. name, title, ...)
end

field("version", ProtoField.uint8, "Version", base.DEC, nil, 0xc0)
field("kind", ProtoField.uint8, "Kind", base.DEC, KINDS, 0x38)
field("length", ProtoField.uint8, "Length in bytes", base.DEC)
field("stamped", ProtoField.bool, "S: an AQT router has stamped", 8, nil, 0x80)
field("gap", ProtoField.bool, "G: not every hop has stamped, or nobody knows", 8, nil, 0x40)
field("congested", ProtoField.bool, "C: a link is about to be congested", 8, nil, 0x20)
field("offered", ProtoField.bool, "R: a router has merged its H_feedback", 8, nil, 0x10)
field("echo.stamped", ProtoField.bool, "s: echoed S", 8, nil, 0x08)
field("echo.gap", ProtoField.bool, "g: echoed G", 8, nil, 0x04)
field("echo.congested", ProtoField.bool, "c: echoed C", 8, nil, 0x02)
field("echo.offered", ProtoField.bool, "r: echoed R", 8, nil, 0x01)
field("aqt", ProtoField.uint32, "AQT: time in routers' queues (us)", base.DEC)
field("phase", ProtoField.uint8, "P: parity of the generation of keys", base.DEC, nil, 0x80)
field("echo.phase", ProtoField.uint8, "p: echoed P", base.DEC, nil, 0x40)
field("hop_limit", ProtoField.uint8, "Hop Limit behind the last stamp, modulo 64", base.DEC, nil, 0x3f)
field("feedback", ProtoField.uint64, "H_feedback: rate (bytes/s)", base.DEC)
field("feedback_window", ProtoField.double, "H_feedback: change of the window (bytes)")
field("contention", ProtoField.uint32, "Contention (flows)", base.DEC)
field("echo.contention", ProtoField.uint32, "Echoed Contention (flows)", base.DEC)
field("window", ProtoField.uint64, "H_cwnd: the sender's window (bytes)", base.DEC)
field("rtt", ProtoField.uint32, "H_rtt (us)", base.DEC)
field("timestamp", ProtoField.uint24, "Timestamp (us, modulo 2^24)", base.DEC)
field("echo.timestamp", ProtoField.uint24, "Echoed Timestamp (us, modulo 2^24)", base.DEC)
field("echo.held", ProtoField.uint32, "Time Held (us)", base.DEC)
field("echo.aqt", ProtoField.uint32, "Echoed AQT (us)", base.DEC)
field("echo.feedback", ProtoField.uint64, "Echoed H_feedback: rate (bytes/s)", base.DEC)
field("echo.feedback_window", ProtoField.double, "Echoed H_feedback: change of the window (bytes)")
field("tag", ProtoField.bytes, "Tag")
field("opaque", ProtoField.bytes, "Content of a version or kind that is unknown here")
proto.fields = f

-- Section 2.1: a code of an exponent above this many bits of mantissa.
local function compact(code, mantissa_bits)
    local unit = 2 ^ mantissa_bits
    local exponent, mantissa = math.floor(code / unit), code % unit
    if exponent == 0 then
        return mantissa
    end
    return (unit + mantissa) * 2 ^ (exponent - 1)
end

-- The greatest code of a time is read as the one below.
local function time(code)
    return compact(math.min(code, 0xfffe), 12)
end

local function large(number)
    return UInt64.new(number % 2 ^ 32, math.floor(number / 2 ^ 32))
end

-- Adds H_feedback, which XCP gives another meaning; returns its text.
local function add_feedback(tree, prefix, range, kind)
    if kind == XCP then
        local code = range:int()
        local bytes = compact(math.min(math.abs(code), 0x7fff), 10) / 256
        bytes = code < 0 and -bytes or bytes
        tree:add(f[prefix .. "feedback_window"], range, bytes)
        return string.format("%+.0f bytes", bytes)
    end
    local code = range:uint()
    local item = tree:add(f[prefix .. "feedback"], range, large(compact(code, 11)))
    if code == NO_LIMIT then
        item:append_text(" (no limit)")
        return "no limit"
    end
    return string.format("%.6g Mb/s", compact(code, 11) * 8 / 1e6)
end

local function add_contention(tree, name, range)
    local item = tree:add(f[name], range, compact(range:uint(), 4))
    if range:uint() == 0 then
        item:append_text(" (nobody counted)")
    end
end

-- What routers write and the sender says of itself.
local function add_forward(tree, header, kind)
    for _, name in ipairs({ "stamped", "gap", "congested", "offered" }) do
        tree:add(f[name], header(5, 1))
    end
    local aqt = tree:add(f.aqt, header(6, 3))
    if header(6, 3):uint() == 0xffffff then
        aqt:append_text(" (that or more)")
    end
    tree:add(f.phase, header(9, 1))
    tree:add(f.hop_limit, header(9, 1))
    local feedback = add_feedback(tree, "", header(10, 2), kind)
    if kind == XCP then
        tree:add(f.window, header(12, 2), large(compact(header(12, 2):uint(), 11)))
    else
        add_contention(tree, "contention", header(12, 1))
    end
    local rtt = tree:add(f.rtt, header(14, 2), time(header(14, 2):uint()))
    if header(14, 2):uint() == 0 then
        rtt:append_text(" (unknown, or not to be counted)")
    end
    tree:add(f.timestamp, header(16, 3))
    return feedback
end

-- What the receiver of an earlier header sends back of it. Its kind is that of the other direction,
-- which is not in this packet; it is read as this header's own.
local function add_echo(tree, header, kind)
    if header(22, 2):uint() == NO_ECHO then
        tree:add(header(19, 9), "Nothing is echoed")
        return
    end
    local echo = tree:add(header(19, 9), "Echo")
    for _, name in ipairs({ "stamped", "gap", "congested", "offered" }) do
        echo:add(f["echo." .. name], header(5, 1))
    end
    echo:add(f["echo.phase"], header(9, 1))
    if kind ~= XCP then
        add_contention(echo, "echo.contention", header(13, 1))
    end
    echo:add(f["echo.timestamp"], header(19, 3))
    echo:add(f["echo.held"], header(22, 2), time(header(22, 2):uint()))
    echo:add(f["echo.aqt"], header(24, 2), time(header(24, 2):uint()))
    add_feedback(echo, "echo.", header(26, 2), kind)
end

-- Adds the header to the tree; returns a summary in few words.
local function add_header(tree, header)
    local version, kind = header(4, 1):bitfield(0, 2), header(4, 1):bitfield(2, 3)
    tree = tree:add(proto, header())
    tree:add(f.version, header(4, 1))
    tree:add(f.kind, header(4, 1))
    tree:add(f.length, header(4, 1), header:len())
    local is_known = version == 1 and kind >= ACP and kind <= XCP and header:len() == LENGTH
    if not is_known then
        tree:add(f.opaque, header(5))
        return KINDS[kind] or "unknown kind"
    end
    local feedback = add_forward(tree, header, kind)
    add_echo(tree, header, kind)
    tree:add(f.tag, header(28, 4))
    local aqt = string.format("AQT %.3f ms", header(6, 3):uint() / 1000)
    return KINDS[kind] .. ", " .. aqt .. ", " .. feedback
end

-- How long the header in front of a UDP payload is; 0 without one (section 4.2).
local function header_len(payload)
    if payload:len() < 8 or payload(0, 4):uint() ~= MAGIC then
        return 0
    end
    local length = 4 * (payload(4, 1):bitfield(5, 3) + 1)
    if length < 8 or length > payload:len() then
        return 0
    end
    return length
end

function proto.dissector(payload, pinfo, tree)
    local length = header_len(payload)
    local summary = length > 0 and add_header(tree, payload(0, length):tvb())
    if length < payload:len() then
        Dissector.get("quic"):call(payload(length):tvb(), pinfo, tree)
    end
    if summary then
        pinfo.cols.info:prepend("[" .. summary .. "] ")
    end
    return payload:len()
end

-- An Initial of QUIC 1 or 2 (RFC 9000, section 17.2; RFC 9369, section 3.2).
local function is_initial(payload)
    if payload:len() < 1200 or payload(0, 1):bitfield(0, 2) ~= 3 then
        return false
    end
    local version, kind = payload(1, 4):uint(), payload(0, 1):bitfield(2, 2)
    return version == 1 and kind == 0 or version == 0x6b3343cf and kind == 1
end

-- Takes the conversation at QUIC's first packet, so that Wireshark's dissector of QUIC is not given
-- datagrams whose header still stands in front.
proto:register_heuristic("udp", function(payload, pinfo, tree)
    if header_len(payload) == 0 and not is_initial(payload) then
        return false
    end
    pinfo.conversation = proto
    proto.dissector(payload, pinfo, tree)
    return true
end)
