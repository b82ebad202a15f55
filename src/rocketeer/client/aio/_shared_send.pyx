# cython: language_level=3, boundscheck=False, wraparound=False
"""Sends that share a request, compiled: the twin of `shared_send_plain.py`, which says what is what.

A SharedSend here is no asyncio.Future, but does what a task asks of one. So the tasks that await the sends of one
request go on with one call of the loop, where futures would take one each.
"""

from asyncio import CancelledError
from contextvars import copy_context

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from rocketeer.client.core._in_flight cimport InFlight

from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import SendFailed
from rocketeer.model.message import Message
from rocketeer.model.property_names import DEDUP_ID, START_DELIVER_TIME
from rocketeer.model.topic import RETRY_PREFIX

cdef enum:
    MESSAGES_MAX = 1024
    ITEM_BYTES = 200  # about what a message's properties take beside its body

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN, PYGEN_ERROR, PYGEN_NEXT
    ctypedef struct PyAsyncMethods:
        PySendResult (*am_send)(object, object, PyObject **) except? PYGEN_ERROR
    ctypedef struct PyTypeObject:
        PyAsyncMethods *tp_as_async

cdef enum State:
    PENDING
    ANSWERED
    FAILED
    CANCELLED


cdef class JoinRule:
    """Which messages can be in a batch, and look the same to consumers as if they came alone."""
    cdef Py_ssize_t _body_bytes_max
    cdef bint _idempotent

    def __init__(self, Py_ssize_t body_bytes_max, *, bint idempotent):
        self._body_bytes_max = body_bytes_max
        self._idempotent = idempotent

    def takes(self, message):
        cdef bytes body
        cdef dict properties
        if type(message) is not Message:
            return False
        body = message.body
        properties = message.properties
        # `Message.is_timed`, without a call in Python for each send
        if message.delay_level or message.deliver_at is not None or message.delay is not None:
            return False
        if properties and (START_DELIVER_TIME in properties or self._idempotent and DEDUP_ID in properties):
            return False
        return (
            0 < PyBytes_GET_SIZE(body) <= self._body_bytes_max
            and not (<str> message.topic).startswith(RETRY_PREFIX)
        )


cdef class Batch:
    """Messages on their way together. Without `queue` any will do."""
    cdef readonly object slot, queue, timeout_s, mode
    cdef readonly list messages, waiters
    cdef public object timer, due_s
    cdef public bint shut
    cdef str _topic
    cdef bint _wait_stored, _is_sync
    cdef Py_ssize_t _bytes, _bytes_max

    def __init__(self, slot, first, queue, timeout_s, mode, Py_ssize_t bytes_max):
        self.slot = slot
        self.queue = queue
        self.timeout_s = timeout_s
        self.mode = mode
        self.messages = []
        self.waiters = []
        self.timer = None
        self.due_s = None
        self.shut = False
        self._topic = first.topic
        self._wait_stored = first.wait_stored
        self._is_sync = mode is SendMode.SYNC
        self._bytes = 0
        self._bytes_max = bytes_max

    cpdef bint fits(self, message, timeout_s, bint is_sync) except -1:
        return (
            self._topic == <str> message.topic
            and self._wait_stored == <bint> message.wait_stored
            and (self.timeout_s is timeout_s or self.timeout_s == timeout_s)
            and self._is_sync == is_sync
        )

    cpdef bint join(self, message, waiter) except -1:
        self.messages.append(message)
        self.waiters.append(waiter)
        self._bytes += len(<bytes> message.body) + ITEM_BYTES
        return self._bytes >= self._bytes_max or len(self.messages) >= MESSAGES_MAX


@cython.freelist(256)
cdef class SharedSend:
    """One send that shares its request: it waits for a place in flight, joins a batch, and leaves with its outcome."""
    cdef public bint _asyncio_future_blocking
    cdef readonly object message, queue, timeout_s
    cdef readonly Py_ssize_t size
    cdef SharedSends _sends
    cdef bint _in_flight
    cdef State _state
    cdef object _value  # the result, the error, or why it was cancelled
    cdef object _wakeup, _context  # of the task that awaits it

    def __init__(self):
        raise TypeError("SharedSends.share makes them")

    @staticmethod
    cdef SharedSend of(SharedSends sends, message, queue, timeout_s):
        """A new one, without the arguments of a call from Python."""
        cdef SharedSend sent = SharedSend.__new__(SharedSend)
        sent._sends = sends
        sent.message = message
        sent.queue = queue
        sent.timeout_s = timeout_s
        sent.size = len(<bytes> message.body)
        return sent

    # --- as a seeker of a place, and as a waiter ---

    cpdef enter(self):
        self._in_flight = True
        self._sends.join(self)

    cpdef bint done(self) except -1:
        return self._state != PENDING

    def set_result(self, result, /):
        self._settle(ANSWERED, result)
        self._leave(True)

    def set_exception(self, error, /):
        self._settle(FAILED, error)
        self._leave(not isinstance(error, SendFailed))

    cdef int _settle(self, State state, value) except -1:
        assert self._state == PENDING, "it has its outcome"
        self._state = state
        self._value = value
        if self._wakeup is not None:
            self._sends.wake_soon(self)
        return 0

    cdef int _leave(self, bint answered) except -1:
        if self._in_flight:
            self._in_flight = False
            self._sends.limit.leave(self.size, answered=answered)
        return 0

    # --- as a future of whoever awaits it ---

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self._state == PENDING:
            self._asyncio_future_blocking = True
            return self
        raise StopIteration(self.result())

    # `_send_into` below stands in for it wherever a coroutine awaits.

    def get_loop(self):
        return self._sends.loop

    def result(self):
        if self._state == ANSWERED:
            return self._value
        if self._state == FAILED:
            raise self._value
        assert self._state == CANCELLED, "it has no outcome yet"
        raise CancelledError() if self._value is None else CancelledError(self._value)

    def exception(self):
        return self._value if self._state == FAILED else None

    def cancelled(self):
        return self._state == CANCELLED

    def cancel(self, msg=None):
        """Cancel the send for its sender; its place is free again."""
        if self._state != PENDING:
            return False
        self._settle(CANCELLED, msg)
        self._leave(False)
        return True

    def add_done_callback(self, callback, *, context=None):
        assert self._wakeup is None, "one task awaits it"
        self._wakeup = callback
        self._context = copy_context() if context is None else context
        if self._state != PENDING:
            self._sends.wake_soon(self)

    def remove_done_callback(self, callback):
        if self._wakeup is None or self._wakeup != callback:
            return 0
        self._wakeup = self._context = None
        return 1


cdef PySendResult _send_into(object given, object value, PyObject **came) except? PYGEN_ERROR:
    """What `__next__` does, without an exception to carry the result."""
    cdef SharedSend sent = <SharedSend> given
    cdef object result
    if sent._state == PENDING:
        sent._asyncio_future_blocking = True
        result = sent
    else:
        result = sent.result()
    Py_INCREF(result)
    came[0] = <PyObject *> result
    return PYGEN_NEXT if sent._state == PENDING else PYGEN_RETURN


(<PyTypeObject *> SharedSend).tp_as_async.am_send = _send_into


cdef class SharedSends:
    """Where sends that share requests come in: one per started producer."""
    cdef readonly object loop, limit
    cdef object _batcher
    cdef InFlight _in_flight
    cdef Batch _last
    cdef list _woken  # those with an outcome whose task has not gone on yet

    def __init__(self, loop, limit, batcher):
        self.loop = loop
        self.limit = limit
        self._in_flight = limit.in_flight
        self._batcher = batcher
        self._woken = []

    def share(self, message, queue, timeout_s):
        """Have a message sent in one request with others, as soon as there is a place for it."""
        cdef SharedSend sent = SharedSend.of(self, message, queue, timeout_s)
        if len(self._in_flight.waiting) or not self._in_flight.try_enter(sent.size):
            self.limit.seek(sent)
        else:
            sent.enter()
        return sent

    cdef int join(self, SharedSend sent) except -1:
        """Mostly it goes where the one before it went."""
        cdef Batch batch = self._last
        if (
            batch is None
            or batch.shut
            or sent.queue is not None
            or batch.queue is not None
            or not batch.fits(sent.message, sent.timeout_s, True)
        ):
            self._last = self._batcher.add(sent.message, sent.queue, sent.timeout_s, sent)
        elif batch.join(sent.message, sent):
            self._batcher.full(batch)
        return 0

    cdef int wake_soon(self, SharedSend sent) except -1:
        if not self._woken:
            self.loop.call_soon(self._wake)
        self._woken.append(sent)
        return 0

    def _wake(self):
        cdef list woken = self._woken
        cdef Py_ssize_t at = 0
        cdef SharedSend sent
        self._woken = []
        try:
            while at < len(woken):
                sent = woken[at]
                at += 1
                wakeup, context = sent._wakeup, sent._context
                sent._wakeup = sent._context = None
                if wakeup is not None:
                    PyContext_Enter(context)
                    try:
                        wakeup(sent)
                    finally:
                        PyContext_Exit(context)
        finally:
            if at < len(woken):  # one ended the loop, as KeyboardInterrupt does: the others go on when it goes on
                if not self._woken:
                    self.loop.call_soon(self._wake)
                self._woken = woken[at:] + self._woken


def any_done(list waiters not None):
    """Whether one of them has given up."""
    for waiter in waiters:
        if type(waiter) is SharedSend:
            if (<SharedSend> waiter)._state != PENDING:
                return True
        elif waiter.done():
            return True
    return False


def finish(list waiters not None, result):
    """Give each of them its part of the result of their batch."""
    cdef Py_ssize_t at, count = len(waiters), left = 0, left_bytes = 0
    cdef SharedSend sent
    cdef SharedSends sends = None
    cdef list ids, places
    cdef str place = result.offset_message_id
    if count == 1:
        if not waiters[0].done():
            waiters[0].set_result(result)
        return
    status, queue, offset = result.status, result.queue, result.queue_offset
    transaction_id, region, trace_on = result.transaction_id, result.region, result.trace_on
    ids = (<str> result.message_id).split(",")
    places = place.split(",")
    if len(ids) != count:
        raise ValueError(f"{len(ids)} ids for {count} messages")
    if len(places) != count:
        places = [place] * count
    for at in range(count):
        waiter = waiters[at]
        if type(waiter) is SharedSend:
            sent = <SharedSend> waiter
            if sent._state != PENDING:
                continue
            sent._settle(
                ANSWERED,
                SendResult(status, ids[at], places[at], queue, offset + at, transaction_id, region, trace_on),
            )
            if sent._in_flight:
                sent._in_flight = False
                sends = sent._sends
                left += 1
                left_bytes += sent.size
        elif not waiter.done():
            waiter.set_result(
                SendResult(status, ids[at], places[at], queue, offset + at, transaction_id, region, trace_on)
            )
    if sends is not None:
        sends.limit.leave(left_bytes, count=left)
