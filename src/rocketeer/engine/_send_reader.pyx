# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Plain sends at the front of what sockets brought: read, checked, and noted with all that is stored of them.

No Python object is made for a message. What is not plain is left where it is.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t
from libc.string cimport memcmp, memcpy

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._batch_reader cimport SendBatchReader
from rocketeer.engine._properties cimport IndexedProperties, PropertyRules
from rocketeer.engine._queues cimport QueueAppendState, SendQueues
from rocketeer.engine._request cimport (
    FLAG_RESPONSE, SEND_BATCH_MESSAGE, ParsedSendHeader, read_send_header, unescape,
)
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_list cimport SENDS_MAX, SendList
from rocketeer.protocol._frame_head cimport FRAME_PREFIX_BYTES, JSON, FrameHead, read_frame_head
from rocketeer.record._layout cimport HOST_BYTES


cdef class SendReader:
    """Adds plain sends to `sends`.

    With `access`, only sends that it lets pass are plain; with `ids`, batches of messages with new ids are.
    """

    def __init__(
        self,
        SendList sends not None,
        SendQueues known not None,
        PropertyRules rules not None,
        limits,
        Py_ssize_t header_bytes_max,
        SendAccess access,
        SendIds ids,
    ):
        self._sends = sends
        self._known = known
        self._rules = rules
        self._batch_keys_max = limits.batch_keys_max
        self._header_bytes_max = header_bytes_max
        self._access = access
        self._ids = ids
        self._batches = SendBatchReader(sends, rules, limits, ids)

    cdef Py_ssize_t read(self, bytes data, bytes born_host) except -2:
        """How many bytes the plain sends at the front of `data` have; -1 if those held must be appended first."""
        cdef SendList sends = self._sends
        cdef Py_ssize_t before = sends.count, arena_before = sends.arena_used, read, i
        cdef Py_ssize_t total_before = sends.total, keys_before = sends.keys.used
        if PyBytes_GET_SIZE(born_host) != HOST_BYTES:
            return 0
        if not sends.make_room(PyBytes_GET_SIZE(data), PyBytes_GET_SIZE(self._rules.cluster)):
            return -1
        if self._access is not None:
            self._access.begin(born_host)
        try:
            read = self._read_frames(data)
        except BaseException:  # whoever calls does not keep `data` then
            sends.count, sends.total, sends.keys.used = before, total_before, keys_before
            sends.arena_used = arena_before
            raise
        if sends.count > before:
            for i in range(before, sends.count):
                memcpy(sends.sends[i].born_host, PyBytes_AS_STRING(born_host), HOST_BYTES)
        else:
            sends.arena_used = arena_before
            if self._ids is not None and not before:
                self._ids.forget_buffered()  # of a batch that was not taken
        return read

    cdef Py_ssize_t _read_frames(self, bytes data) except -1:
        """Read whole frames while they are plain sends; how many bytes they have."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), added, total, hashes
        cdef SendList sends = self._sends
        cdef FrameHead head
        cdef ParsedSendHeader header
        cdef QueueAppendState state
        cdef const char *text
        cdef const char *body
        cdef int32_t place
        header.keeps_fields = self._access is not None
        while sends.count < SENDS_MAX and not sends.has_many_keys():
            if not read_frame_head(start + at, end - at, &head) or head.kind != JSON:
                break
            if head.header_bytes > self._header_bytes_max:
                break  # the general path refuses it unread
            text = start + at + FRAME_PREFIX_BYTES
            if head.header_bytes < 12 or memcmp(text, b'{"code":3', 9) != 0:
                break
            body = text + head.header_bytes
            if not read_send_header(text, body, &header) or header.flag & FLAG_RESPONSE:
                break
            if self._access is not None and not self._access.passes(&header, body, head.body_bytes):
                break
            state = self._known.find(&header)
            if state is None:
                break  # plain sends may not go to it
            place = sends.place_of(state)
            total, hashes = sends.total, sends.keys.used
            if header.code == SEND_BATCH_MESSAGE:
                added = self._batches.read(&header, body, head.body_bytes, place)
            else:
                added = self._read_send(&header, body, head.body_bytes, place)
            if not added:
                break
            if sends.keys.used - hashes > self._batch_keys_max or (
                self._access is not None and not self._access.takes_nonce(&header)
            ):
                sends.total, sends.keys.used = total, hashes  # as if it had not been read
                break
            sends.count += added
            at += head.frame_bytes
        return at

    cdef Py_ssize_t _read_send(
        self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """1, or 0 for a message that is not plain."""
        cdef IndexedProperties indexed
        cdef char *stored
        cdef char *text
        cdef Send *send = self._sends.at(self._sends.count)
        cdef Py_ssize_t text_bytes = header.properties.size, cluster_bytes = PyBytes_GET_SIZE(self._rules.cluster)
        # What is stored is never longer than the text and the cluster behind it; the text may be unescaped there.
        stored = self._sends.use_arena(2 * text_bytes + cluster_bytes)
        if stored == NULL:
            return 0
        text = <char *> header.properties.at
        if header.properties.escaped:
            text = stored + text_bytes + cluster_bytes
            text_bytes = unescape(&header.properties, text)
            if text_bytes < 0:
                return 0
        send.wait = True
        send.properties_bytes = self._rules.store(text, text_bytes, stored, &indexed, &send.wait)
        if send.properties_bytes < 0:
            return 0
        send.properties = stored
        send.replies_for = 1
        send.named = False
        if not self._sends.complete(send, header, body, body_bytes, place, header.message_flag, &indexed):
            return 0
        self._sends.total += send.size
        return 1
