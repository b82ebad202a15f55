# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A batch among plain sends: its messages, each with the properties that all of them have in common."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from rocketeer.engine._properties cimport IndexedProperties, MessageId, PropertyRules, override
from rocketeer.engine._queues cimport QueueAppendState
from rocketeer.engine._request cimport ParsedSendHeader, unescape
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_list cimport SHARED_BYTES_MAX, SendList
from rocketeer.record._bytes cimport get16, get32
from rocketeer.record._layout cimport (
    ITEM_BODY_BYTES_AT, ITEM_BYTES, ITEM_FLAG_AT, PROPERTIES_BYTES_MAX, PROPERTY_END, TX_ROLLBACK,
)


cdef Py_ssize_t items_of(const char *body, Py_ssize_t size) noexcept nogil:
    """How many messages a batch has, up to one that is broken; each begins with its size."""
    cdef Py_ssize_t at = 0, count = 0, item_bytes
    while size - at >= ITEM_BYTES + 2:
        item_bytes = <int32_t> get32(body + at)
        if item_bytes < ITEM_BYTES + 2:
            break
        at += item_bytes
        count += 1
    return count


cdef class SendBatchReader:
    """Adds the messages of batches to `sends`."""

    def __init__(self, SendList sends not None, PropertyRules rules not None, limits, SendIds ids):
        self._sends = sends
        self._rules = rules
        self._message_bytes_max = limits.message_bytes_max
        self._batch_messages_max = limits.batch_messages_max
        self._batch_keys_max = limits.batch_keys_max
        self._ids = ids

    cdef Py_ssize_t read(
        self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """How many messages the batch has; 0, with nothing added, for one that is not plain."""
        cdef Py_ssize_t at = 0, stop, count = 0, item_bytes, properties_at, properties_bytes, total = 0
        cdef Py_ssize_t hashes_before = self._sends.keys.used, shared_bytes
        cdef const char *item
        cdef char *shared
        cdef Send *send
        cdef bint wait = True, ignored, named = False
        cdef QueueAppendState state = <QueueAppendState> self._sends.queues[place]
        cdef IndexedProperties indexed, common
        cdef MessageId own_id, common_id
        if body_bytes > self._message_bytes_max or header.sys_flag & TX_ROLLBACK:  # any state of a transaction
            return 0
        shared_bytes = header.properties.size
        shared = self._sends.use_arena(shared_bytes + 1)
        if shared == NULL:
            return 0
        if header.properties.escaped:
            shared_bytes = unescape(&header.properties, shared)
        else:
            memcpy(shared, header.properties.at, shared_bytes)
        while shared_bytes > 0 and shared[0] == PROPERTY_END:
            shared += 1
            shared_bytes -= 1
        while shared_bytes > 0 and shared[shared_bytes - 1] == PROPERTY_END:
            shared_bytes -= 1
        if shared_bytes < 0 or not self._rules.find_indexed_properties(shared, shared_bytes, &common, &common_id, &wait):
            return 0
        if common_id.producer_bytes:
            return 0
        if shared_bytes > SHARED_BYTES_MAX and items_of(body, body_bytes) * shared_bytes > self._message_bytes_max:
            return 0  # too large for the store: no need to write them all side by side first
        while at < body_bytes:
            item = body + at
            if count == self._batch_messages_max or body_bytes - at < ITEM_BYTES + 2:
                break
            if self._sends.keys.used - hashes_before > self._batch_keys_max:
                break
            item_bytes = <int32_t> get32(item + ITEM_BODY_BYTES_AT)
            properties_at = ITEM_BYTES + item_bytes + 2
            if item_bytes < 0 or properties_at > body_bytes - at:
                break
            properties_bytes = get16(item + properties_at - 2)
            if (
                properties_bytes > PROPERTIES_BYTES_MAX
                or properties_bytes > body_bytes - at - properties_at
                or properties_at + properties_bytes != <int32_t> get32(item)
            ):
                break
            stop = at + properties_at + properties_bytes
            while properties_bytes and item[properties_at + properties_bytes - 1] == PROPERTY_END:
                properties_bytes -= 1
            if not self._rules.find_indexed_properties(item + properties_at, properties_bytes, &indexed, &own_id, &ignored):
                break
            send = self._sends.at(self._sends.count + count)
            send.named = False
            if own_id.producer_bytes:
                if not state.takes_ids or not self._ids.takes(&own_id, &common_id, send):
                    break
                named = True
            override(&indexed, &common)
            send.wait = wait
            send.replies_for = 0
            if not self._join_properties(send, item + properties_at, properties_bytes, shared, shared_bytes):
                break
            if not self._sends.complete(
                send, header, item + ITEM_BYTES, item_bytes, place, <int32_t> get32(item + ITEM_FLAG_AT), &indexed
            ):
                break
            total += send.size
            count += 1
            at = stop  # only now: a last message that is not plain makes the whole batch so
        if at < body_bytes or count == 0 or (named and count > self._ids.batch_messages_max):
            self._sends.keys.used = hashes_before
            return 0
        self._sends.sends[self._sends.count].replies_for = <int32_t> count
        self._sends.total += total
        return count

    cdef bint _join_properties(
        self, Send *send, const char *own, Py_ssize_t own_bytes, const char *shared, Py_ssize_t shared_bytes
    ) except -1:
        """Write what is stored of a message: its own properties, the batch's, the cluster; False without room."""
        cdef Py_ssize_t cluster_bytes = PyBytes_GET_SIZE(self._rules.cluster)
        cdef char *to = self._sends.use_arena(own_bytes + shared_bytes + 1 + cluster_bytes)
        if to == NULL:
            return False
        send.properties = to
        memcpy(to, own, own_bytes)
        to += own_bytes
        if shared_bytes:
            to[0] = PROPERTY_END
            memcpy(to + 1, shared, shared_bytes)
            to += shared_bytes + 1
        memcpy(to, PyBytes_AS_STRING(self._rules.cluster), cluster_bytes)
        send.properties_bytes = to + cluster_bytes - send.properties
        return True
