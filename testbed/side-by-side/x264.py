#!/usr/bin/python3
"""x264 and Opus by GStreamer as MPEG-TS, at the rate that a file says:

  x264.py RATE_FILE | evenkeel stream publish --encoder-rate RATE_FILE --bitrate 6M

Needs python3-gi, gir1.2-gstreamer-1.0 and GStreamer's plugins base, good, bad and ugly.
"""
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

SOUND_BPS = 64_000
# What the transport stream adds.
SHARE = 0.94

Gst.init(None)
pipeline = Gst.parse_launch(
    "videotestsrc is-live=true pattern=snow ! video/x-raw,width=640,height=360,framerate=25/1"
    " ! x264enc name=x264 tune=zerolatency speed-preset=ultrafast key-int-max=50 bitrate=900"
    " ! h264parse config-interval=-1 ! mux. audiotestsrc is-live=true volume=0.1"
    f" ! opusenc bitrate={SOUND_BPS} ! mux. mpegtsmux name=mux ! fdsink fd=1 sync=false")
x264 = pipeline.get_by_name("x264")


def follow():
    """Sets x264's bitrate, in kilobits a second, to what the file leaves for pictures."""
    try:
        with open(sys.argv[1]) as file:
            text = file.read().strip()
    except FileNotFoundError:
        text = ""
    if text:
        x264.set_property("bitrate", max(50, round((int(text) * SHARE - SOUND_BPS) / 1000)))
    return True


loop = GLib.MainLoop()
bus = pipeline.get_bus()
bus.add_signal_watch()
bus.connect("message::error", lambda *_: loop.quit())
bus.connect("message::eos", lambda *_: loop.quit())
GLib.timeout_add(40, follow)
pipeline.set_state(Gst.State.PLAYING)
try:
    loop.run()
except KeyboardInterrupt:
    pass
pipeline.set_state(Gst.State.NULL)
