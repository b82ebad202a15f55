# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Plain messages in copied log bytes: from records to queue entries and keys, with no Python object for any of them.

`replica.py` says which messages are plain, and leads all others the general way.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcpy

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get32, get64, hash_ascii, hash_if_ascii, is_name, put32, without_sign
from rocketeer.record._layout cimport NAME_END, PROPERTY_END
from rocketeer.record._plain_record cimport PlainRecord, has_its_body, take_apart
from rocketeer.store._queue_entries cimport QueueTail

cdef enum:
    ID_BYTES = 4


cdef struct Copied:  # a message that was read and not dispatched yet
    int64_t log_offset
    int64_t queue_offset
    int64_t store_ms
    int64_t tag_code
    int32_t size
    int32_t queue  # its place in `_queues`
    int32_t keys  # how many


cdef struct Words:  # what the properties say
    const char *tags
    Py_ssize_t tags_bytes
    const char *keys
    Py_ssize_t keys_bytes
    const char *uniq_key
    Py_ssize_t uniq_key_bytes


cdef class KnownQueue:
    """A queue whose messages may be plain."""

    cdef QueueTail queue
    cdef uint32_t key_prefix  # the hash of "topic#", which every key's goes on from
    cdef int64_t filling  # the last filling of the run with a message for it
    cdef int32_t place  # among the queues of that filling; -1 when none of them is in the run
    cdef int64_t next_offset  # that the next message must have


cdef bytes key_of(const char *topic, Py_ssize_t size, int32_t queue_id):
    cdef bytes key = PyBytes_FromStringAndSize(NULL, ID_BYTES + size)
    put32(PyBytes_AS_STRING(key), <uint32_t> queue_id)
    memcpy(PyBytes_AS_STRING(key) + ID_BYTES, topic, size)
    return key


cdef class CopiedRun:
    """Messages of known queues: `read` collects them, `apply` derives from them what is to be derived.

    `claims` are the names of properties that some feature wants to see.
    """

    cdef frozenset _claims
    cdef uint64_t _claim_lengths
    cdef dict _known
    cdef int64_t _filling
    cdef list _queues
    cdef Copied *_copied
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef uint32_t *_hashes
    cdef Py_ssize_t _hashes_used
    cdef Py_ssize_t _hashes_room

    def __init__(self, claims):
        self._claims = frozenset(name.encode() for name in claims)
        for name in self._claims:  # what is longer than the mask shares its last bit
            self._claim_lengths |= <uint64_t> 1 << min(<int> len(name), 63)
        self._known = {}
        self.clear()

    def __dealloc__(self):
        free(self._copied)
        free(self._hashes)

    def __len__(self):
        """How many messages were read."""
        return self._count

    def clear(self):
        """What was read is dispatched, or was no part of the log."""
        self._queues = []
        self._filling += 1
        self._count = self._hashes_used = 0

    def admit(self, str topic not None, int32_t queue_id, QueueTail queue not None):
        """From now on messages of this queue may be plain."""
        cdef bytes name = topic.encode()
        cdef bytes start = name + b"#"
        cdef KnownQueue known
        if not name.isascii():
            return
        known = KnownQueue.__new__(KnownQueue)
        known.queue = queue
        known.key_prefix = hash_ascii(0, PyBytes_AS_STRING(start), PyBytes_GET_SIZE(start))
        known.filling = -1
        self._known[key_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), queue_id)] = known

    def forget(self):
        """No queue is known any more; only when nothing was read."""
        assert self._count == 0
        self._known.clear()

    def passed(self, str topic not None, int32_t queue_id, int64_t queue_offset):
        """A message between those read goes the general way: the next of its queue follows it."""
        cdef bytes name = topic.encode()
        cdef KnownQueue known
        found = self._known.get(key_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), queue_id))
        if found is not None:
            known = <KnownQueue> found
            if known.filling != self._filling:
                known.filling = self._filling
                known.place = -1
            known.next_offset = queue_offset + 1

    def read(self, object buf not None, Py_ssize_t start, int64_t base, Py_ssize_t count=1 << 62):
        """Collect up to `count` plain messages of `buf` from `start` on; where the first record begins that is none.

        `base` is the log offset of the buffer's first byte; a record must stand where it says.
        """
        cdef Py_buffer view
        cdef Py_ssize_t at = start, size
        PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
        try:
            while count > self._count:
                size = self._take(<const char *> view.buf + at, view.len - at, base + at)
                if not size:
                    break
                at += size
        finally:
            PyBuffer_Release(&view)
        return at

    def apply(self, dispatch, Py_ssize_t first, Py_ssize_t last):
        """Dispatch the messages `first` to `last` of those read. What raises midway may be called again."""
        cdef Copied *each
        cdef KnownQueue known
        cdef Py_ssize_t i
        cdef dict grown = {}
        assert 0 <= first < last <= self._count
        for i in range(first, last):
            each = self._copied + i
            known = <KnownQueue> self._queues[each.queue]
            if each.queue_offset == known.queue.max_offset:
                known.queue.add(each.log_offset, each.size, each.tag_code)
                grown[known.queue] = None
        for queue in grown:
            if (<QueueTail> queue).max_offset > (<QueueTail> queue)._due:
                (<QueueTail> queue)._write_out_due()
        each = self._copied + last - 1
        dispatch.apply_run(
            grown, self._key_columns(first, last), last - first,
            self._copied[first].log_offset, each.log_offset + each.size, each.store_ms,
        )

    # --- one record ----------------------------------------------------------------------------------------

    cdef Py_ssize_t _take(self, const char *start, Py_ssize_t left, int64_t log_offset) except -1:
        """Its size; 0, with nothing changed, if it is not plain, not whole or no record."""
        cdef PlainRecord record
        cdef uint32_t tag = 0
        cdef Words words
        cdef KnownQueue known
        cdef Copied *copied
        if (
            not take_apart(start, left, log_offset, &record)
            or record.sys_flag & _layout.TX_PREPARED
            or get64(start + _layout.PREPARED_OFFSET_AT) != 0
        ):
            return 0
        found = self._known.get(
            key_of(record.topic, record.topic_bytes, <int32_t> get32(start + _layout.QUEUE_ID_AT))
        )
        if found is None:
            return 0
        known = <KnownQueue> found
        if known.filling != self._filling:
            known.filling = self._filling
            known.place = -1
            known.next_offset = known.queue.max_offset
        if <int64_t> get64(start + _layout.QUEUE_OFFSET_AT) != known.next_offset:
            return 0
        if not self._find(record.properties, record.properties_bytes, &words):
            return 0
        if words.tags_bytes and not hash_if_ascii(words.tags, words.tags_bytes, &tag):
            return 0
        if not has_its_body(&record):
            return 0
        self._make_room(words.keys_bytes)
        copied = self._copied + self._count
        copied.keys = self._add_keys(known.key_prefix, &words)
        if copied.keys < 0:
            return 0
        if known.place < 0:
            known.place = <int32_t> len(self._queues)
            self._queues.append(known)
        copied.log_offset = log_offset
        copied.queue_offset = known.next_offset
        copied.store_ms = <int64_t> get64(start + _layout.STORE_MS_AT)
        copied.tag_code = <int32_t> tag
        copied.size = <int32_t> record.size
        copied.queue = known.place
        known.next_offset += 1
        self._count += 1
        return record.size

    cdef bint _find(self, const char *at, Py_ssize_t left, Words *words) except -1:
        """Tags and keys, as `marks.find_marks` finds them; False if a feature wants to see the message."""
        cdef Py_ssize_t piece, name
        cdef const char *stop
        cdef const char *value
        words.tags_bytes = words.keys_bytes = words.uniq_key_bytes = 0
        while left > 0:
            stop = <const char *> memchr(at, PROPERTY_END, left)
            piece = stop - at if stop != NULL else left
            value = <const char *> memchr(at, NAME_END, piece)
            if value != NULL and value + 1 < at + piece:
                name = value - at
                value += 1
                if is_name(at, name, b"TAGS", 4):
                    words.tags = value
                    words.tags_bytes = piece - name - 1
                elif is_name(at, name, b"KEYS", 4):
                    words.keys = value
                    words.keys_bytes = piece - name - 1
                elif is_name(at, name, b"UNIQ_KEY", 8):
                    words.uniq_key = value
                    words.uniq_key_bytes = piece - name - 1
                if self._claim_lengths >> min(name, 63) & 1:
                    if PyBytes_FromStringAndSize(at, name) in self._claims:
                        return False
            at += piece + 1
            left -= piece + 1
        return True

    cdef int32_t _add_keys(self, uint32_t prefix, Words *words) except -2:
        """Hash the client's id, then each of the keys; how many, -1 when one is not ASCII."""
        cdef Py_ssize_t before = self._hashes_used, left = words.keys_bytes, word
        cdef const char *at = words.keys
        cdef const char *stop
        if words.uniq_key_bytes and not self._add_key(prefix, words.uniq_key, words.uniq_key_bytes):
            return -1
        while left > 0:
            stop = <const char *> memchr(at, b" ", left)
            word = stop - at if stop != NULL else left
            if word and not self._add_key(prefix, at, word):
                self._hashes_used = before
                return -1
            at += word + 1
            left -= word + 1
        return <int32_t> (self._hashes_used - before)

    cdef bint _add_key(self, uint32_t prefix, const char *at, Py_ssize_t size) noexcept:
        cdef uint32_t value = prefix
        if not hash_if_ascii(at, size, &value):
            return False
        self._hashes[self._hashes_used] = without_sign(value)
        self._hashes_used += 1
        return True

    cdef int _make_room(self, Py_ssize_t keys_bytes) except -1:
        """For one message more, and for as many keys as its text can have."""
        cdef void *more
        cdef Py_ssize_t wanted = self._hashes_used + keys_bytes // 2 + 2
        if self._count == self._room:
            more = realloc(self._copied, (2 * self._room + 256) * sizeof(Copied))
            if more == NULL:
                raise MemoryError
            self._copied = <Copied *> more
            self._room = 2 * self._room + 256
        if wanted > self._hashes_room:
            more = realloc(self._hashes, 2 * wanted * sizeof(uint32_t))
            if more == NULL:
                raise MemoryError
            self._hashes = <uint32_t *> more
            self._hashes_room = 2 * wanted
        return 0

    cdef tuple _key_columns(self, Py_ssize_t first, Py_ssize_t last):
        """Hash, log offset and store time of every key, as the index takes them."""
        cdef Py_ssize_t before = 0, used = 0, i, key
        for i in range(first):
            before += self._copied[i].keys
        for i in range(first, last):
            used += self._copied[i].keys
        cdef bytes hashes = PyBytes_FromStringAndSize(<char *> (self._hashes + before), used * sizeof(uint32_t))
        cdef bytes offsets = PyBytes_FromStringAndSize(NULL, used * sizeof(int64_t))
        cdef bytes times = PyBytes_FromStringAndSize(NULL, used * sizeof(int64_t))
        cdef int64_t *offset = <int64_t *> PyBytes_AS_STRING(offsets)
        cdef int64_t *time = <int64_t *> PyBytes_AS_STRING(times)
        for i in range(first, last):
            for key in range(self._copied[i].keys):
                offset[0] = self._copied[i].log_offset
                time[0] = self._copied[i].store_ms
                offset += 1
                time += 1
        return hashes, offsets, times
