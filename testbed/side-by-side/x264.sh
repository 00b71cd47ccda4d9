#!/bin/bash
# x264 follows a link of 4 Mb/s that halves after about 15 s: x264.sh BIN_DIR. Prints what the
# viewer sees every 2 s, and the rate that the encoder is told each second. Needs root and what
# x264.py needs.
BIN=$(realpath "$1"); HERE=$(dirname "$(realpath "$0")"); W=$(mktemp -d); export BIN HERE W
exec "$BIN/evenkeel-testbed" exec "$HERE/../scenarios/lossy.toml" --set links.0.rate_bps=4M \
    --set links.0.delay_ms=20 --set links.0.loss=0 --set links.0.queue_packets=170 \
    --set 'links.0.changes=[{at_s=18,rate_bps=2000000}]' --host server -- bash -c '
cd "$W"; touch rate s.out; C=$(getent hosts client | cut -d" " -f1)
ip netns exec $EVENKEEL_NETNS_client sh -c "timeout 40 /usr/bin/python3 \"$HERE/x264.py\" rate |
    \"$BIN/evenkeel\" stream publish --encoder-rate rate --bitrate 6M >s.out" &
for _ in $(seq 80); do
    PIN=$(grep -o "sha256:[0-9a-f]*" s.out | head -1); [ -n "$PIN" ] && break; sleep .1
done
(for _ in $(seq 30); do sleep 1; echo $((10#$(cat rate))); done >rates) &
timeout 40 "$BIN/evenkeel" stream play "$C" out.ts --pin "$PIN" --latency 250ms --time 30 \
    --interval 2
echo "told, b/s: $(tr "\n" " " <rates)"; wait; rm -rf "$W"'
