"""SEND_MESSAGE in its three forms (10, 310 and the batch 320): the general path."""

from collections.abc import Sequence
from time import perf_counter

from rocketeer.broker.feature import ReplyField
from rocketeer.broker.send import SendHeader, SendService, stored_fields
from rocketeer.broker.writer import WriteResult
from rocketeer.errors import RequestRefused, RocketeerError
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import SendMessageHeader, SendMessageV2Header
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import InOrder
from rocketeer.steps import Steps


class SendHandler:
    """Leads a send request to the service and its outcome back to the sender."""

    def __init__(
        self,
        service: SendService,
        *,
        store_host: bytes,
        region: str,
        trace_on: bool,
        counters: Counters,
        fields: Sequence[ReplyField] = (),
    ) -> None:
        self._service = service
        self._counters = counters
        self._fields = tuple(fields)
        self._id_start = store_host.hex().upper()
        self.ext = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false"}
        """In every reply, also in refusals."""

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send_v2,
            RequestCode.SEND_BATCH_MESSAGE: self.send_v2,
        }

    def send(self, command: Command, connection: Connection) -> Command | InOrder[Command | None] | None:
        return self._serve(command, connection, SendMessageHeader)

    def send_v2(self, command: Command, connection: Connection) -> Command | InOrder[Command | None] | None:
        return self._serve(command, connection, SendMessageV2Header)

    def _serve(
        self,
        command: Command,
        connection: Connection,
        kind: type[SendMessageHeader] | type[SendMessageV2Header],
    ) -> Command | InOrder[Command | None] | None:
        began_s = perf_counter()

        def done(queue_id: int, put: WriteResult) -> None:
            took_ms = (perf_counter() - began_s) * 1000
            self._counters.answered(command.code, put.code, False, took_ms)
            if not command.is_oneway:
                connection.send(self.answer(command, header.topic, queue_id, put))

        try:
            header: SendHeader = decode_header(kind, command.ext)
            sent = (header, command.body, connection.remote_host, connection.remote, done)
            if _is_batch(command, header):
                return InOrder(self._in_steps(command, self._service.sending_batch(*sent)))
            self._service.send(*sent)
        except RocketeerError as error:
            return self._refusal(command, error)
        return None

    def _in_steps(self, command: Command, steps: Steps[None]) -> Steps[Command | None]:
        try:
            yield from steps
        except RocketeerError as error:
            return self._refusal(command, error)
        return None

    def _refusal(self, command: Command, error: RocketeerError) -> Command:
        if isinstance(error, RequestRefused):
            return reply(command, error.code, error.remark, self.ext)
        return reply(command, ResponseCode.SYSTEM_ERROR, str(error), self.ext)

    def answer(self, command: Command, topic: str, queue_id: int, put: WriteResult) -> Command:
        if not put.stored or put.code == ResponseCode.SYSTEM_ERROR:
            return reply(command, put.code, put.remark, self.ext)
        ext = {**self.ext, **stored_fields(self._id_start, queue_id, put.appended)}
        for field in self._fields if len(put.appended) == 1 else ():
            ext.update(field(topic, put.appended[0]))
        return reply(command, put.code, put.remark, ext)


def _is_batch(command: Command, header: SendHeader) -> bool:
    return command.code == RequestCode.SEND_BATCH_MESSAGE or bool(header.batch)
