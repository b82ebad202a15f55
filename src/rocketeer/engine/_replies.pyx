# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The replies to sends that were stored: whole frames with JSON headers, as `protocol.reply_template` makes them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from rocketeer.engine._queues cimport QueueAppendState
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_list cimport SendList
from rocketeer.protocol._frame_head cimport FRAME_PREFIX_BYTES
from rocketeer.record._bytes cimport put32, put_bytes

cdef enum:
    OFFSET_DIGITS = 16  # of a log offset in a message id
    DECIMAL_BYTES_MAX = 20
    ZERO = 48
    TEN_AS_DIGIT = 65 - 10


cdef char *put_hex(char *to, uint64_t value) noexcept nogil:
    cdef int at, digit
    for at in range(OFFSET_DIGITS):
        digit = (value >> (60 - 4 * at)) & 15
        to[at] = <char> (digit + (ZERO if digit < 10 else TEN_AS_DIGIT))
    return to + OFFSET_DIGITS


cdef char *put_decimal(char *to, int64_t value) noexcept nogil:
    cdef char digits[DECIMAL_BYTES_MAX]
    cdef Py_ssize_t count = 0
    cdef uint64_t rest = value
    if value < 0:
        to[0] = b"-"
        to += 1
        rest = 0 - rest
    while True:
        digits[count] = <char> (ZERO + rest % 10)
        rest //= 10
        count += 1
        if not rest:
            break
    while count:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


cdef class ReplyFormat:
    """`pieces` are a reply's fixed parts around (opaque, message ids, queue id, queue offset).

    The piece in front of the message ids ends with the store's host, as each of the ids begins.
    """

    def __init__(self, tuple pieces not None, bytes id_start not None):
        (
            self._before_opaque,
            self._before_ids,
            self._before_queue_id,
            self._before_queue_offset,
            self._end,
        ) = pieces
        self._id_start = id_start
        self._fixed_bytes = FRAME_PREFIX_BYTES + 3 * DECIMAL_BYTES_MAX + sum([len(piece) for piece in pieces])
        self._id_bytes = len(id_start) + 1 + OFFSET_DIGITS

    cdef Py_ssize_t bytes_max(self, Py_ssize_t messages) noexcept:
        """At least what the reply to so many messages takes."""
        return self._fixed_bytes + messages * self._id_bytes

    cdef char *put(self, char *frame, Send *send, int32_t queue_id) noexcept:
        """Write the reply to a send, and to those behind it that it speaks for; where it ends."""
        cdef char *to = put_bytes(frame + FRAME_PREFIX_BYTES, self._before_opaque)
        cdef Py_ssize_t i
        to = put_bytes(put_decimal(to, send.opaque), self._before_ids)
        for i in range(send.replies_for):
            if i:
                to[0] = b","
                to = put_bytes(to + 1, self._id_start)
            to = put_hex(to, <uint64_t> send[i].log_offset)
        to = put_bytes(to, self._before_queue_id)
        to = put_bytes(put_decimal(to, queue_id), self._before_queue_offset)
        to = put_bytes(put_decimal(to, send.queue_offset), self._end)
        put32(frame, <uint32_t> (to - frame - 4))
        put32(frame + 4, <uint32_t> (to - frame - 8))
        return to

    cdef bytes answer(self, SendList sends, Py_ssize_t start, Py_ssize_t end, bint waits):
        """Encode the replies of sends that need not wait for durability; None if there are none."""
        cdef Py_ssize_t size = 0, i
        cdef bytes frames
        cdef Send *send
        cdef char *to
        for i in range(start, end):
            send = sends.sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                size += self.bytes_max(send.replies_for)
        if not size:
            return None
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        for i in range(start, end):
            send = sends.sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                to = self.put(to, send, (<QueueAppendState> sends.queues[send.queue]).queue_id)
        return frames[: to - PyBytes_AS_STRING(frames)]

    cdef list later(self, SendList sends, Py_ssize_t start, Py_ssize_t end):
        """What the replies that wait will say: a row for `frames` each."""
        cdef list rows = []
        cdef Send *send
        cdef Py_ssize_t i, at
        for i in range(start, end):
            send = sends.sends + i
            if send.replies_for and not send.oneway and send.wait:
                log_offsets = [send[at].log_offset for at in range(send.replies_for)]
                queue_id = (<QueueAppendState> sends.queues[send.queue]).queue_id
                rows.append((send.opaque, queue_id, send.queue_offset, log_offsets))
        return rows

    def frames(self, list waited not None):
        """The replies that waited: (opaque, queue id, queue offset, log offsets of the messages) each."""
        cdef Py_ssize_t size = 0, most = 1, i
        cdef bytes frames
        cdef char *to
        cdef Send *sends
        for row in waited:
            size += self.bytes_max(len(row[3]))
            most = max(most, len(row[3]))
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        sends = <Send *> malloc(most * sizeof(Send))
        if sends == NULL:
            raise MemoryError
        try:
            for opaque, queue_id, queue_offset, log_offsets in waited:
                sends[0].opaque = opaque
                sends[0].queue_offset = queue_offset
                sends[0].replies_for = <int32_t> len(log_offsets)
                for i in range(sends[0].replies_for):
                    sends[i].log_offset = log_offsets[i]
                to = self.put(to, sends, queue_id)
        finally:
            free(sends)
        return frames[: to - PyBytes_AS_STRING(frames)]
