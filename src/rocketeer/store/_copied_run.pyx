# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Plain messages in copied log bytes: from records to queue entries and keys, with no Python object for any of them.

`log_bytes_dispatcher.py` says which messages are plain; `log_bytes_runs.py` leads all others the general way.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get32, get64, hash_text, put32
from rocketeer.record._plain_record cimport RecordParts, has_its_body, take_apart
from rocketeer.record._property_text cimport (
    IndexedProperties, Property, clear_indexed_properties, is_among, lengths_of, next_property, note_indexed_property,
)
from rocketeer.store._key_columns cimport KeyColumns, KeyHashes
from rocketeer.store._queue_entries cimport QueueInRun, QueueTail

cdef enum:
    ID_BYTES = 4


cdef struct CopiedMessage:  # a message that was read and not dispatched yet
    int64_t log_offset
    int64_t queue_offset
    int64_t store_ms
    int64_t tag_code
    int32_t size
    int32_t queue  # its place in `_queues`
    int32_t keys  # how many


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
    cdef int64_t _run_number
    cdef list _queues
    cdef CopiedMessage *_copied
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef KeyHashes _keys

    def __init__(self, claims):
        self._claims = frozenset(name.encode() for name in claims)
        self._claim_lengths = lengths_of(self._claims)
        self._known = {}
        self._keys = KeyHashes()
        self.clear()

    def __dealloc__(self):
        free(self._copied)

    def __len__(self):
        """How many messages were read."""
        return self._count

    def clear(self):
        """Empty the run."""
        self._queues = []
        self._run_number += 1
        self._count = self._keys.used = 0

    def admit(self, str topic not None, int32_t queue_id, QueueTail queue not None):
        """From now on messages of this queue may be plain."""
        cdef bytes name = topic.encode()
        if name.isascii():
            self._known[key_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), queue_id)] = QueueInRun(name, queue)

    def forget(self):
        """No queue is known any more; only when nothing was read."""
        assert self._count == 0
        self._known.clear()

    def passed(self, str topic not None, int32_t queue_id, int64_t queue_offset):
        """A message between those read goes the general way: the next of its queue follows it."""
        cdef bytes name = topic.encode()
        cdef QueueInRun known
        found = self._known.get(key_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), queue_id))
        if found is not None:
            known = <QueueInRun> found
            if known.run_number != self._run_number:
                known.run_number = self._run_number
                known.place = -1  # none of them is in the run
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
        cdef CopiedMessage *each
        cdef QueueInRun known
        cdef Py_ssize_t i
        cdef dict grown = {}
        assert 0 <= first < last <= self._count
        for i in range(first, last):
            each = self._copied + i
            known = <QueueInRun> self._queues[each.queue]
            if each.queue_offset == known.queue.max_offset:
                known.queue.add(each.log_offset, each.size, each.tag_code)
            grown[known.queue] = None  # also if a call that failed has added it: nobody was told
        for queue in grown:
            (<QueueTail> queue).write_out_if_due()
        each = self._copied + last - 1
        dispatch.apply_run(
            grown, self._key_columns(first, last), last - first,
            self._copied[first].log_offset, each.log_offset + each.size, each.store_ms,
        )

    # --- one record ----------------------------------------------------------------------------------------

    cdef Py_ssize_t _take(self, const char *start, Py_ssize_t left, int64_t log_offset) except -1:
        """Add the plain message at `start`; its size, or 0, with nothing changed, if it is not plain, not whole
        or no record."""
        cdef RecordParts record
        cdef uint32_t tag = 0
        cdef IndexedProperties indexed
        cdef QueueInRun known
        cdef CopiedMessage *copied
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
        known = <QueueInRun> found
        if known.run_number != self._run_number:
            known.run_number = self._run_number
            known.place = -1
            known.next_offset = known.queue.max_offset
        if <int64_t> get64(start + _layout.QUEUE_OFFSET_AT) != known.next_offset:
            return 0
        if not self._find(record.properties, record.properties_bytes, &indexed):
            return 0
        if not hash_text(indexed.tags, indexed.tags_bytes, &tag) or not has_its_body(&record):
            return 0
        self._make_room()
        copied = self._copied + self._count
        copied.keys = self._keys.add(known.key_prefix, &indexed)
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

    cdef bint _find(self, const char *at, Py_ssize_t size, IndexedProperties *indexed) except -1:
        """Tags and keys, as `find_indexed_properties` finds them; False if a feature wants to see the message."""
        cdef const char *end = at + size
        cdef Property found
        clear_indexed_properties(indexed)
        while next_property(&at, end, &found):
            note_indexed_property(&found, indexed)
            if is_among(&found, self._claims, self._claim_lengths):
                return False
        return True

    cdef int _make_room(self) except -1:
        """Make room for one more message."""
        cdef void *more
        if self._count == self._room:
            more = realloc(self._copied, (2 * self._room + 256) * sizeof(CopiedMessage))
            if more == NULL:
                raise MemoryError
            self._copied = <CopiedMessage *> more
            self._room = 2 * self._room + 256
        return 0

    cdef tuple _key_columns(self, Py_ssize_t first, Py_ssize_t last):
        cdef Py_ssize_t before = 0, keys = 0, i
        cdef KeyColumns columns
        for i in range(first):
            before += self._copied[i].keys
        for i in range(first, last):
            keys += self._copied[i].keys
        columns = self._keys.columns(before, before + keys)
        for i in range(first, last):
            columns.fill(self._copied[i].keys, self._copied[i].log_offset, self._copied[i].store_ms)
        return columns.as_tuple()
