"""One plain send between the parts of the engine: where its bytes lie, and what becomes of it."""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef struct Send:
    const char *body
    Py_ssize_t body_bytes
    const char *properties  # as they are stored
    Py_ssize_t properties_bytes
    Py_ssize_t size  # of its record
    int64_t born_ms
    int64_t tag_code
    int64_t opaque
    int64_t log_offset
    int64_t queue_offset
    int32_t queue  # which of the buffer's queues
    int32_t message_flag
    int32_t sys_flag
    int32_t reconsume_times
    int32_t keys  # how many the index gets
    int32_t replies_for  # how many messages its reply speaks of: 1, a batch's count, 0 behind a batch's first
    bint oneway
    bint wait  # for durability
    bint named  # it has an id of its own
    uint64_t id_hash
    char born_host[8]
