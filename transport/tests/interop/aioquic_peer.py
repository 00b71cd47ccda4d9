"""The other end of the interop tests, by aioquic (PyPI), which knows nothing of evenkeel.

    aioquic_peer.py get PORT CERTIFICATE PATH...   requests all paths at once over one HTTP/3 connection;
                                                   prints for each its status, length and SHA-256, in their order
    aioquic_peer.py send PORT CERTIFICATE TIMES    sends 3 MB and takes them back, TIMES times, each time with
                                                   new keys, another connection ID and another port; prints
                                                   length and SHA-256 of each
    aioquic_peer.py resume PORT CERTIFICATE        sends 3 MB and takes them back; comes back with early data
    aioquic_peer.py echo CERTIFICATE KEY [retry]   prints its port, then echoes every stream until stdin ends

At the end each prints how many datagrams have come and how many of them began with a path header.
"""

import asyncio
import hashlib
import socket
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived

MAGIC = bytes.fromhex("0ed2b74c")
PAYLOAD = bytes(i % 251 for i in range(3_000_000))
# Longer than any test takes on a busy machine: a test that hangs is to fail.
PATIENCE = 120

arrived = {"datagrams": 0, "headed": 0}


class Peer(QuicConnectionProtocol):
    def datagram_received(self, data, addr):
        arrived["datagrams"] += 1
        arrived["headed"] += data.startswith(MAGIC)
        super().datagram_received(data, addr)


class Fetch(Peer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answers = {}

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            status, body, done = self.answers[part.stream_id]
            if isinstance(part, HeadersReceived):
                status.extend(value for name, value in part.headers if name == b":status")
            elif isinstance(part, DataReceived):
                body.extend(part.data)
            if part.stream_ended:
                done.set_result(None)

    def request(self, path, port):
        stream = self._quic.get_next_available_stream_id()
        self.answers[stream] = ([], bytearray(), asyncio.get_running_loop().create_future())
        headers = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", f"localhost:{port}".encode()),
            (b":path", path.encode()),
        ]
        self.http.send_headers(stream, headers, end_stream=True)
        return self.answers[stream]


class Send(Peer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.handshake = None
        self.answers = {}

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        if isinstance(event, StreamDataReceived):
            body, done = self.answers[event.stream_id]
            body.extend(event.data)
            if event.end_stream:
                done.set_result(None)

    async def exchange(self):
        stream = self._quic.get_next_available_stream_id()
        self.answers[stream] = (bytearray(), asyncio.get_running_loop().create_future())
        self._quic.send_stream_data(stream, PAYLOAD, end_stream=True)
        self.transmit()
        body, done = self.answers[stream]
        await done
        print(len(body), hashlib.sha256(body).hexdigest())

    async def move(self):
        port = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        port.bind(("::", 0))
        old = self._transport
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=port)
        old.close()


class Echo(Peer):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self._quic.send_stream_data(event.stream_id, event.data, event.end_stream)


def client(protocol, certificate):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[protocol], server_name="localhost")
    configuration.load_verify_locations(certificate)
    return configuration


async def get(port, certificate, *paths):
    configuration = client("h3", certificate)
    async with connect("127.0.0.1", int(port), configuration=configuration, create_protocol=Fetch) as peer:
        answers = [peer.request(path, port) for path in paths]
        peer.transmit()
        for path, (status, body, done) in zip(paths, answers):
            await done
            print(path, b" ".join(status).decode(), len(body), hashlib.sha256(body).hexdigest())
        peer.close(error_code=ErrorCode.H3_NO_ERROR)


async def send(port, certificate, times):
    configuration = client("echo", certificate)
    async with connect("127.0.0.1", int(port), configuration=configuration, create_protocol=Send) as peer:
        for nth in range(int(times)):
            if nth > 0:
                await peer.move()
                peer.request_key_update()
                peer.change_connection_id()
            await peer.exchange()


async def resume(port, certificate):
    tickets = []
    configuration = client("echo", certificate)
    first = connect(
        "127.0.0.1",
        int(port),
        configuration=configuration,
        create_protocol=Send,
        session_ticket_handler=tickets.append,
    )
    async with first as peer:
        await peer.exchange()
    configuration.session_ticket = tickets[0]
    # Not waited for: what is sent goes along with the handshake.
    again = connect(
        "127.0.0.1", int(port), configuration=configuration, create_protocol=Send, wait_connected=False
    )
    async with again as peer:
        await peer.exchange()
        handshake = peer.handshake
    print("resumed", handshake.session_resumed, "early", handshake.early_data_accepted)


async def echo(certificate, key, retry=None):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["echo"])
    configuration.load_cert_chain(certificate, key)
    tickets = {}
    server = await serve(
        "127.0.0.1",
        0,
        configuration=configuration,
        create_protocol=Echo,
        session_ticket_fetcher=tickets.get,
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
        retry=retry is not None,
    )
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def main(role, *arguments):
    roles = {"get": get, "send": send, "resume": resume, "echo": echo}
    await asyncio.wait_for(roles[role](*arguments), PATIENCE)
    print("datagrams", arrived["datagrams"], "headed", arrived["headed"])


asyncio.run(main(*sys.argv[1:]))
