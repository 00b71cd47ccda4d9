"""The other end of transport/tests/interop.rs, by aioquic (PyPI), which knows nothing of evenkeel.

    aioquic_peer.py get PORT CERTIFICATE          fetches / over HTTP/3, prints the body's first line and length
    aioquic_peer.py echo CERTIFICATE KEY          prints its port, then echoes every stream until stdin ends
"""

import asyncio
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived


class Fetch(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.body = b""
        self.done = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        for answer in self.http.handle_event(event):
            if isinstance(answer, DataReceived):
                self.body += answer.data
            if isinstance(answer, (DataReceived, HeadersReceived)) and answer.stream_ended:
                self.done.set_result(self.body)

    async def get(self, port):
        stream = self._quic.get_next_available_stream_id()
        headers = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", f"localhost:{port}".encode()),
            (b":path", b"/"),
        ]
        self.http.send_headers(stream, headers, end_stream=True)
        self.transmit()
        return await self.done


class Echo(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self._quic.send_stream_data(event.stream_id, event.data, event.end_stream)


async def get(port, certificate):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost")
    configuration.load_verify_locations(certificate)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Fetch) as client:
        body = await client.get(port)
    print(body.split(b"\n")[0].decode(), len(body))


async def echo(certificate, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["echo"])
    configuration.load_cert_chain(certificate, key)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Echo)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


role, *arguments = sys.argv[1:]
if role == "get":
    asyncio.run(get(int(arguments[0]), arguments[1]))
else:
    asyncio.run(echo(*arguments))
