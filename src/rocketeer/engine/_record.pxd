from libc.stdint cimport int32_t, int64_t

from rocketeer.engine._send cimport Send


cdef void write_record(
    char *to, Send *send, int32_t queue_id, bytes topic_part, bytes store_host, int64_t store_ms
) noexcept
