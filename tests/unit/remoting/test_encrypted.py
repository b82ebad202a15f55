"""Connections with TLS: whole answers in their order, however large, however late they are read; and every end."""

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Callable

import pytest

from rocketeer.protocol.command import Command, decode_frame, encode, reply, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.connection import READ_PAUSE_BYTES, RUN_FRAMES_MAX
from rocketeer.remoting.encrypted import EncryptedTransport, TlsSession
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer
from rocketeer.security.certificates import Authority
from rocketeer.security.tls import TlsConfig, client_context

LARGE_BYTES = 12 << 20
ANSWER_BYTES = 200_000
QUESTIONS = 600
WAIT_S = 60
Made = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The server's and a client's."""
    authority = Authority(tmp_path_factory.mktemp("ca"), days=2, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue("server", ["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(issued.cert, issued.key)
    return server, client_context(TlsConfig(trust=authority.cert))


@contextlib.asynccontextmanager
async def served(contexts: Made) -> AsyncIterator[tuple[RemotingServer, int]]:
    def answer(command: Command, connection: Connection) -> Command:
        return reply(
            command, body=bytes([command.code]) * {1: LARGE_BYTES, 2: ANSWER_BYTES, 3: 1}[command.code]
        )

    server = RemotingServer(Router(dict.fromkeys((1, 2, 3), answer)).process, tls=lambda: contexts[0])
    await server.start("127.0.0.1", [0])
    try:
        yield server, server.ports[0]
    finally:
        await server.stop()


async def connected(contexts: Made, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=contexts[1])


async def answers(reader: asyncio.StreamReader, count: int) -> list[Command]:
    splitter, come = FrameSplitter(), []
    async with asyncio.timeout(WAIT_S):
        while len(come) < count:
            data = await reader.read(1 << 20)
            assert data, "thrown out"
            come += [decode_frame(*frame) for frame in splitter.feed(data)]
    return come


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # there is no event for what the kernel holds
            await asyncio.sleep(0.01)


async def test_answers_of_every_size_come_whole_and_in_order(contexts: Made) -> None:
    async with served(contexts) as (_, port):
        reader, writer = await connected(contexts, port)
        questions = [request(code) for code in (1, 3, 2, 1, 3)]
        writer.write(b"".join(map(encode, questions)))
        come = await answers(reader, len(questions))
        assert [answer.opaque for answer in come] == [question.opaque for question in questions]
        for question, answer in zip(questions, come, strict=True):
            assert set(answer.body) == {question.code}
            assert len(answer.body) == {1: LARGE_BYTES, 2: ANSWER_BYTES, 3: 1}[question.code]
        writer.close()


async def test_one_who_reads_late_is_not_read_meanwhile_and_gets_all(contexts: Made) -> None:
    async with served(contexts) as (server, port):
        reader, writer = await connected(contexts, port)
        questions = [request(2) for _ in range(QUESTIONS)]
        writer.write(b"".join(map(encode, questions)))
        await until(lambda: server.connections)
        (connection,) = server.connections
        await until(lambda: connection.unread_bytes > READ_PAUSE_BYTES)
        most = 0
        for _ in range(20):
            await asyncio.sleep(0.01)
            most = max(most, connection.unread_bytes)
        assert most <= READ_PAUSE_BYTES + RUN_FRAMES_MAX * (ANSWER_BYTES + 500), (
            "one run beyond the mark, no more"
        )
        come = await answers(reader, QUESTIONS)
        assert [answer.opaque for answer in come] == [question.opaque for question in questions]
        writer.close()


class KeptBelow:
    """A transport that takes what is written and sends nothing."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.write = self.kept.extend

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


def shake_hands(session: TlsSession, context: ssl.SSLContext) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    while not session.is_established:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        session.decrypt(to_server.read())
        to_client.write(session.pending_output())


async def test_who_was_not_let_go_on_while_much_waited_is_when_nothing_does(contexts: Made) -> None:
    """The transport below said so too early, and this one had never told anybody to pause."""
    session, below, resumed = TlsSession(contexts[0]), KeptBelow(), asyncio.Event()
    shake_hands(session, contexts[1])
    transport = EncryptedTransport(below, session, lambda: pytest.fail("too little"), resumed.set)
    transport.set_write_buffer_limits(high=READ_PAUSE_BYTES)
    transport.write(bytes(READ_PAUSE_BYTES))
    async with asyncio.timeout(WAIT_S):
        await resumed.wait()
    assert transport.get_write_buffer_size() == len(below.kept), "nothing waits to be encrypted"


async def test_what_was_asked_before_garbage_is_answered(contexts: Made) -> None:
    async with served(contexts) as (server, port):
        reader, writer = await connected(contexts, port)
        writer.write(encode(request(1)) + b"\xff" * 8)
        async with asyncio.timeout(WAIT_S):
            (answer,) = FrameSplitter().feed(await reader.read())
        assert len(answer[2]) == LARGE_BYTES
        await until(lambda: not server.connections)
        writer.close()


async def test_a_question_in_records_of_one_byte_is_answered(contexts: Made) -> None:
    async with served(contexts) as (_, port):
        reader, writer = await connected(contexts, port)
        questions = [request(3, {"fill": "x" * 3_000}) for _ in range(2)]
        for byte in b"".join(map(encode, questions)):
            writer.write(bytes([byte]))
        come = await answers(reader, 2)
        assert [answer.opaque for answer in come] == [question.opaque for question in questions]
        writer.close()


async def test_who_says_goodbye_is_let_go(contexts: Made) -> None:
    async with served(contexts) as (server, port):
        reader, writer = await connected(contexts, port)
        writer.write(encode(request(3)))
        await answers(reader, 1)
        assert len(server.connections) == 1
        writer.close()
        await until(lambda: not server.connections)


async def test_what_is_no_tls_any_more_ends_the_connection(
    contexts: Made, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(contexts) as (server, port):
        reader, writer = await connected(contexts, port)
        writer.write(encode(request(3)))
        await answers(reader, 1)
        writer.get_extra_info("socket")._sock.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await until(lambda: not server.connections)
        assert any("reason=[SSL" in record.getMessage() for record in caplog.records)
        writer.transport.abort()
