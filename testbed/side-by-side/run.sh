#!/bin/bash
# evenkeel stream, SRT and RIST over the same emulated links, with the same pictures.
#   run.sh BIN_DIR [SECONDS] [TOOL...]   tools: evenkeel, srt, rist; needs root, srt-, rist-tools
# Each line says how many pictures can be decoded and how old they come out (pictures.py).
set -eu
BIN=$(realpath "$1"); export BIN SECONDS_SENT=${2:-20}; shift $(($# < 2 ? $# : 2))
HERE=$(dirname "$(realpath "$0")"); export HERE
TOOLS=${*:-evenkeel srt rist}

links() {
    case $1 in
    lossy) echo "rate_bps=20M delay_ms=20 jitter_ms=20 queue_packets=130 loss=0.01";;
    narrow) echo "rate_bps=5M delay_ms=20 jitter_ms=0 queue_packets=208 loss=0";;
    esac
}

for case in "lossy 5000000" "narrow 4000000" "narrow 8000000" "narrow follow"; do
    set -- $case; export RATE=$2
    keys=""; for key in $(links $1); do keys="$keys --set links.0.$key"; done
    for tool in $TOOLS; do
        [ "$RATE" != follow ] || [ $tool = evenkeel ] || continue
        export TOOL=$tool
        printf '%-9s %-8s %-9s ' "$1" "$RATE" "$tool"
        "$BIN/evenkeel-testbed" exec "$HERE/../scenarios/lossy.toml" $keys --host server -- \
            bash "$HERE/one.sh" 2>/tmp/side-by-side.err || tail -3 /tmp/side-by-side.err
    done
done
