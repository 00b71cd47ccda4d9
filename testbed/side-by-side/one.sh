#!/bin/bash
# One tool, from the host `client` to the host `server`, in whose namespace this runs; for run.sh.
W=$(mktemp -d); cd "$W"
C=$(getent hosts client | cut -d' ' -f1); S=$(getent hosts server | cut -d' ' -f1)
sender() { ip netns exec "$EVENKEEL_NETNS_client" "$@"; }
P="python3 $HERE/pictures.py"; N=$SECONDS_SENT; WATCH=$((N + 4))
case $TOOL in
evenkeel)
    if [ "$RATE" = follow ]; then
        touch rate; OPTIONS="--encoder-rate rate --bitrate 10M"
        CAMERA="--rate 1000000 --follow rate"
    else
        CAMERA="--rate $RATE"
    fi
    (sleep 1.5; sender $P send - --seconds "$N" $CAMERA) |
        sender "$BIN/evenkeel" stream publish $OPTIONS >s.out 2>s.err & PIDS=$!
    for _ in $(seq 50); do
        PIN=$(grep -o 'sha256:[0-9a-f]*' s.out | head -1); [ -n "$PIN" ] && break; sleep .1
    done
    timeout "$WATCH" "$BIN/evenkeel" stream play "$C" --pin "$PIN" --latency 250ms 2>play.err |
        $P receive - --seconds "$WATCH" --sent "$N";;
srt)
    sender srt-live-transmit -q udp://127.0.0.1:7001 "srt://:7002?mode=listener&latency=250" &
    PIDS=$!
    srt-live-transmit -q "srt://$C:7002?latency=250" udp://127.0.0.1:7003 & PIDS="$PIDS $!"
    (sleep 1.5; sender $P send 127.0.0.1:7001 --seconds "$N" --rate "$RATE") & PIDS="$PIDS $!"
    $P receive 7003 --seconds "$WATCH" --sent "$N";;
rist)
    ristreceiver -i "rist://@0.0.0.0:7004?buffer=250" -o udp://127.0.0.1:7005 >/dev/null 2>&1 &
    PIDS=$!
    sender ristsender -i udp://@127.0.0.1:7006 -o "rist://$S:7004?buffer=250" >/dev/null 2>&1 &
    PIDS="$PIDS $!"
    (sleep 1.5; sender $P send 127.0.0.1:7006 --seconds "$N" --rate "$RATE") & PIDS="$PIDS $!"
    $P receive 7005 --seconds "$WATCH" --sent "$N";;
esac
for pid in $PIDS; do kill "$pid" 2>/dev/null; done
wait 2>/dev/null
rm -rf "$W"
