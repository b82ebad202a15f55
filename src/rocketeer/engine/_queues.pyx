# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The queues that plain sends go to: found by what a request says, with what the records of each have in common."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from rocketeer.engine._request cimport ParsedSendHeader
from rocketeer.record._bytes cimport prefetch
from rocketeer.store._queue_entries cimport QueueInRun, QueueTail

from rocketeer.model.topic import DLQ_PREFIX

cdef enum:
    RECENT_QUEUES = 65536  # places for queues by hash: thousands of them seldom share one


cdef class QueueAppendState(QueueInRun):
    """A queue that plain sends go to: what its records have in common, too."""

    def __init__(self, str topic not None, int32_t queue_id, QueueTail queue not None):
        cdef bytes name = topic.encode()
        super().__init__(name, queue)
        self.queue_id = queue_id
        self.topic_part = len(name).to_bytes(1, "big") + name
        self.appended = -1
        self.takes_ids = not topic.startswith(DLQ_PREFIX)


cdef bint is_queue_of(QueueAppendState state, ParsedSendHeader *header) noexcept:
    return (
        state.queue_id == header.queue_id
        and PyBytes_GET_SIZE(state.topic_part) - 1 == header.topic.size
        and memcmp(PyBytes_AS_STRING(state.topic_part) + 1, header.topic.at, header.topic.size) == 0
    )


cdef uint32_t queue_hash(ParsedSendHeader *header) noexcept nogil:
    cdef uint32_t value = 2166136261U ^ <uint32_t> header.queue_id
    cdef Py_ssize_t i
    for i in range(header.topic.size):
        value = (value ^ <uint8_t> header.topic.at[i]) * 16777619U
    return value ^ (value >> 15)


cdef void prefetch_queues(list states) noexcept:
    """With thousands of queues none is in the cache: ask for all of them before the first is needed."""
    cdef QueueTail queue
    for state in states:
        prefetch(<PyObject *> (<QueueAppendState> state).queue)
    for state in states:
        prefetch(<PyObject *> (<QueueAppendState> state).queue._tail)
    for state in states:
        queue = (<QueueAppendState> state).queue
        prefetch(PyByteArray_AS_STRING(queue._tail) + PyByteArray_GET_SIZE(queue._tail))


cdef class SendQueues:
    """The queues that plain sends may go to, remembered until `forget`.

    `queues_of(topic)` says how many of a topic's they may go to, None if to none; `get_queue(topic, queue_id)` is the
    store's.
    """

    def __cinit__(self):
        self._recent = <PyObject **> calloc(RECENT_QUEUES, sizeof(PyObject *))
        if self._recent == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._recent)

    def __init__(self, queues_of, get_queue):
        self._queues_of = queues_of
        self._get_queue = get_queue
        self._topics = {}

    cdef void forget(self):
        memset(self._recent, 0, RECENT_QUEUES * sizeof(PyObject *))
        self._topics.clear()

    cdef QueueAppendState find(self, ParsedSendHeader *header):
        """The message's queue; None if plain sends may not go to it."""
        cdef PyObject **recent = self._recent + queue_hash(header) % RECENT_QUEUES
        if recent[0] == NULL or not is_queue_of(<QueueAppendState> recent[0], header):
            found = self._make(header)
            if found is None:
                return None
            recent[0] = <PyObject *> found  # `_topics` holds it until it is forgotten
        return <QueueAppendState> recent[0]

    cdef QueueAppendState _make(self, ParsedSendHeader *header):
        cdef bytes topic = PyBytes_FromStringAndSize(header.topic.at, header.topic.size)
        known = self._topics.get(topic)
        if known is None:
            count = self._queues_of(topic.decode())
            if count is None:
                return None
            known = self._topics[topic] = [None] * count
        if not 0 <= header.queue_id < len(<list> known):
            return None
        found = (<list> known)[header.queue_id]
        if found is None:
            name = topic.decode()
            found = QueueAppendState(name, header.queue_id, self._get_queue(name, header.queue_id))
            (<list> known)[header.queue_id] = found
        return found
