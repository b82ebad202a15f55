# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages of batches with an id of their own (PRODUCER_ID and DEDUP_ID): those that are new are plain.

An id whose hash the table knows, or that is in the buffer already, makes its batch other than plain: the general way
reads what is stored and says what becomes of it. So this way never answers for a message that it does not store.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from rocketeer.record._layout cimport NAME_END

cdef enum:
    PRODUCER_BYTES_MAX = 128  # of ASCII, so of characters
    ID_BYTES_MAX = 256
    BUFFERED_ROOM = 65536
    BUFFERED_MAX = 32768  # half of the room, so that chains stay short


cdef bint is_ascii(const char *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t any_byte = 0
    for i in range(size):
        any_byte |= <uint8_t> at[i]
    return any_byte < 0x80


cdef class SendIds:
    """Which ids are stored, or are in the buffer to be stored: `stored.ids` and those that `takes` let pass."""

    def __cinit__(self):
        self._buffered = <BufferedId *> calloc(BUFFERED_ROOM, sizeof(BufferedId))
        if self._buffered == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._buffered)

    def __init__(self, stored, Py_ssize_t batch_messages_max):
        self._stored = stored
        self.batch_messages_max = batch_messages_max
        self._run_number = 1

    cdef bint takes(self, MessageId *own, MessageId *common, Send *send) except -1:
        """Note the hash of the message's id; False if it may be stored already, or its mark is unusual."""
        cdef char text[PRODUCER_BYTES_MAX + 1 + ID_BYTES_MAX]
        cdef BufferedId *buffered
        cdef uint64_t hashed, at
        if not own.id_bytes or own.numbered or common.id_bytes or common.numbered:
            return False
        if own.producer_bytes > PRODUCER_BYTES_MAX or own.id_bytes > ID_BYTES_MAX:
            return False
        if not is_ascii(own.producer, own.producer_bytes) or not is_ascii(own.id, own.id_bytes):
            return False
        memcpy(text, own.producer, own.producer_bytes)
        text[own.producer_bytes] = NAME_END
        memcpy(text + own.producer_bytes + 1, own.id, own.id_bytes)
        if self._ids is None or not self._buffered_count:
            self._ids = self._stored.ids  # another one after a reset
        hashed = self._ids.hash_at(text, own.producer_bytes + 1 + own.id_bytes)
        if self._buffered_count == BUFFERED_MAX or self._ids.place_of(hashed):
            return False
        at = hashed >> 32 & BUFFERED_ROOM - 1  # other bits than the table's
        while True:
            buffered = self._buffered + at
            if buffered.run_number != self._run_number:
                break
            if buffered.hashed == hashed:
                return False
            at = at + 1 & BUFFERED_ROOM - 1
        buffered.hashed = hashed
        buffered.run_number = self._run_number
        self._buffered_count += 1
        send.named = True
        send.id_hash = hashed
        return True

    cdef int remember(self, Send *sends, Py_ssize_t count) except -1:
        """Add the ids of the messages, which are stored now, to the table."""
        cdef Py_ssize_t i
        cdef bint is_changed = False
        if not self._buffered_count:
            return 0
        for i in range(count):
            if sends[i].named:
                self._ids.put(sends[i].id_hash, sends[i].log_offset)
                is_changed = True
        if is_changed:  # ids of a batch that was not taken may be buffered, too
            self._stored.changed = True
        return 0

    cdef void forget_buffered(self) noexcept:
        """Forget the ids of the buffer, which is empty."""
        if self._buffered_count:
            self._buffered_count = 0
            self._run_number += 1
