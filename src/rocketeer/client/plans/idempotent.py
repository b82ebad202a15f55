"""Sending so that nothing is stored twice: the same message to the same queue until its broker has answered.

The broker knows a message by its number in the queue's sequence (or by an id of the user's). Only what certainly has
not left (no connection came about) or was refused may go to another queue.
"""

from typing import Final

from rocketeer.client.core.attempts import PAUSE_S, PAUSE_S_MAX
from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.queue_sequence import PendingSend, QueueSequence
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.core.transient import STORED_NOTHING, TRANSIENT_CODES, backoffs, is_led_elsewhere
from rocketeer.client.plans.effects import Plan, Sleep
from rocketeer.client.plans.replies import ask
from rocketeer.client.plans.send import Sender
from rocketeer.errors import BrokerRefused, ClientError, ConnectFailed, NoBroker, RemotingError, SendTimeout
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import GetProducerSequenceHeader, GetProducerSequenceReplyHeader

ATTEMPT_S: Final = 3.0
"""An answer that takes longer is asked for again."""


class NotSent(ClientError):
    """The message has not left, or was refused for now: any queue may take it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class IdempotentSends:
    """The attempts of one send, within its time."""

    def __init__(self, sender: Sender, queue: MessageQueue, deadline_s: float) -> None:
        self._sender = sender
        self._queue = queue
        self._deadline_s = deadline_s
        self._tried: list[tuple[object, Exception]] = []

    def attempt_once(self, sequence: QueueSequence, pending: PendingSend) -> Plan[None]:
        """One attempt, others may be under way; without an answer the send stays pending, marked as in doubt."""
        pending.failed = pending.in_doubt = True  # written down first: this may be cancelled
        try:
            result = yield from self._attempt(pending.outgoing)
        except (ConnectFailed, NoBroker, BrokerRefused, SendTimeout) as error:
            self._failed(error)
            pending.in_doubt = isinstance(error, BrokerRefused) and error.outcome_unknown
        except RemotingError as error:
            self._failed(error)
        except BaseException as error:  # a hook forbids it
            if isinstance(error, Exception):
                pending.in_doubt = False
            raise
        else:
            sequence.stored(pending, result)

    def settle_up_to(self, sequence: QueueSequence, pending: PendingSend) -> Plan[None]:
        """Settle open sends in order up to this one; no other may be in flight."""
        while not pending.settled:
            yield from self._settle(sequence, sequence.pending[0])

    def settle_all(self, sequence: QueueSequence) -> Plan[None]:
        """Settle all open sends; no other may be in flight."""
        while sequence.pending:
            yield from self._settle(sequence, sequence.pending[0])

    def learn_next(self, sequence: QueueSequence) -> Plan[None]:
        """Learn where the sequence stands; raises NotSent when its broker cannot be asked."""
        if sequence.next is None:
            sequence.next = yield from self.next_sequence(sequence.producer_id)

    def by_id(self, outgoing: Outgoing) -> Plan[SendResult]:
        """Store a message that has an id of its own."""
        in_doubt = False
        pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)
        while True:
            try:
                return (yield from self._attempt(outgoing))
            except STORED_NOTHING as error:
                self._failed(error)
                if not in_doubt:
                    raise NotSent(error) from error
            except RemotingError as error:
                self._failed(error)
                in_doubt = True
            except BrokerRefused as error:
                if error.outcome_unknown:
                    in_doubt = True
                elif error.code not in TRANSIENT_CODES:
                    raise
                elif not in_doubt:
                    raise NotSent(error) from error
                self._failed(error)
            yield Sleep(next(pauses_s))

    def _settle(self, sequence: QueueSequence, pending: PendingSend) -> Plan[None]:
        """Send the oldest until its fate is known; raises when this send's time is over."""
        pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)
        renewed = False
        while True:
            was_in_doubt = pending.in_doubt
            pending.failed = pending.in_doubt = True  # written down first: this may be cancelled
            try:
                result = yield from self._attempt(pending.outgoing)
            except STORED_NOTHING as error:
                self._failed(error)
                pending.in_doubt = was_in_doubt
                if not was_in_doubt:
                    return sequence.not_stored(pending, NotSent(error))
            except RemotingError as error:
                self._failed(error)
            except BrokerRefused as error:
                if error.outcome_unknown:
                    self._failed(error)
                    yield Sleep(next(pauses_s))
                    continue
                pending.in_doubt = was_in_doubt
                if error.code == ResponseCode.SEQUENCE_GAP and sequence.renewable and not renewed:
                    # The broker has forgotten us (we were silent for days, or its disk was lost).
                    sequence.renew()
                    renewed = True
                    continue
                if error.code == ResponseCode.SEQUENCE_TOO_OLD:
                    return sequence.stored(pending, None, error)
                if not was_in_doubt:
                    return sequence.not_stored(
                        pending, NotSent(error) if error.code in TRANSIENT_CODES else error
                    )
                if error.code not in TRANSIENT_CODES and sequence.renewable:
                    # Nobody will say what became of it: others must not wait for that.
                    sequence.stored(pending, None, error)
                    return sequence.renew()
                if error.code not in TRANSIENT_CODES:
                    raise
                self._failed(error)
            except Exception as error:
                pending.in_doubt = was_in_doubt
                if isinstance(error, SendTimeout):
                    if not was_in_doubt and pending is sequence.pending[-1]:
                        # It was refused until its time was over: the reason says more than the time.
                        why = error.__cause__ if isinstance(error.__cause__, BrokerRefused) else error
                        sequence.not_stored(pending, why)
                        raise why from None
                    raise
                return sequence.not_stored(pending, error)  # a hook forbids it
            else:
                return sequence.stored(pending, result)
            yield Sleep(next(pauses_s))

    def _attempt(self, outgoing: Outgoing) -> Plan[SendResult]:
        left_s = self._left_s(outgoing.topic)
        result = yield from self._sender.attempt(outgoing, SendMode.SYNC, self._queue, min(left_s, ATTEMPT_S))
        assert result is not None, "only oneway sends have no result"
        return result

    def next_sequence(self, producer_id: str) -> Plan[int]:
        """The number the queue's broker expects next; it also says whether the broker knows of numbers at all."""
        queue = self._queue
        header = GetProducerSequenceHeader(producer_id, queue.topic, queue.queue_id)
        pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)
        while True:
            try:
                address = self._sender.address_of(queue)
                command = request(RequestCode.GET_PRODUCER_SEQUENCE, header)
                left_s = min(self._left_s(queue.topic), ATTEMPT_S)
                reply = yield from ask(address, command, left_s, broker=queue.broker_name)
            except STORED_NOTHING as error:
                self._failed(error)
                raise NotSent(error) from error
            except RemotingError as error:
                self._failed(error)
                yield Sleep(next(pauses_s))
            except BrokerRefused as error:
                if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    error.add_note(
                        "this broker does not know idempotent producers: send without idempotent=True"
                    )
                if not is_led_elsewhere(error):
                    raise
                self._failed(error)
                raise NotSent(error) from error
            else:
                return decode_header(GetProducerSequenceReplyHeader, reply.ext).next_sequence

    def _left_s(self, topic: str) -> float:
        left_s = self._deadline_s - self._sender.clock.monotonic_s()
        if left_s <= 0:
            error = SendTimeout(
                topic,
                self._tried,
                f"no answer from {self._queue}; if it has left, it keeps its number and is sent before the next",
            )
            raise error from (self._tried[-1][1] if self._tried else None)
        return left_s

    def _failed(self, error: Exception) -> None:
        self._tried = [*self._tried[-9:], (self._queue, error)]
        if not isinstance(error, BrokerRefused) or error.outcome_unknown or is_led_elsewhere(error):
            self._sender.routes.suspect(self._queue.topic)
