# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Whether plain sends may pass where accounts are asked for: signature and permission, without an object per message.

The law is `security.access.AccessControl`'s; what its checks say about an address, a key and a topic is asked once and
remembered until `forget`. Whoever does not pass here is not refused here: the general way looks again, and words it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from rocketeer.remoting import limits

from rocketeer.engine._request cimport Field, JsonText, ParsedSendHeader, unescape
from rocketeer.record._bytes cimport is_name
from rocketeer.security._signing cimport SIGNATURE_CHARS, SigningKey

cdef enum:
    HOSTS_MAX = 4096
    KEYS_MAX = 4096  # of one address: strangers may name as many as they like
    TOPICS_MAX = 65536
    ADDRESS_BYTES = 4

cdef Py_ssize_t CHECKED_AT_ONCE_BYTES = limits.CHECKED_AT_ONCE_BYTES


cdef class KeyAccess:
    """What the sends of one key need, from one address."""

    def __init__(self, bytes name, admission):
        self.name = name
        self.signs = admission.signs
        self.secrets = tuple([SigningKey(secret) for secret in admission.secrets])
        self.may_send = admission.may_send
        self.topics = {}
        self.last_topic = b""

    cdef bint is_signed(
        self, const char *head, Py_ssize_t head_bytes, const char *body, Py_ssize_t body_bytes, JsonText *given
    ) except -1:
        """Whether a secret gives this signature; all are tried and compared to the end: time says nothing."""
        cdef char signature[SIGNATURE_CHARS]
        cdef uint8_t differs
        cdef bint signed = False
        cdef int i
        if given.size != SIGNATURE_CHARS:
            return False
        for secret in self.secrets:
            (<SigningKey> secret).sign_parts(head, head_bytes, body, body_bytes, signature)
            differs = 0
            for i in range(SIGNATURE_CHARS):
                differs |= <uint8_t> (signature[i] ^ given.at[i])
            if differs == 0:
                signed = True
        return signed

    cdef bint may_send_to(self, JsonText *topic) except -1:
        cdef bytes name
        if (
            PyBytes_GET_SIZE(self.last_topic) == topic.size
            and memcmp(PyBytes_AS_STRING(self.last_topic), topic.at, topic.size) == 0
        ):
            return True
        name = PyBytes_FromStringAndSize(topic.at, topic.size)
        may = self.topics.get(name)
        if may is None:
            if len(self.topics) >= TOPICS_MAX:
                self.topics.clear()
            may = self.topics[name] = self.may_send(name.decode())
        if may:
            self.last_topic = name
        return may


cdef class HostAccess:
    """What is known of one address."""

    def __init__(self, str address, bint white):
        self.address = address
        self.white = white
        self.keys = {}


cdef class SendAccess:
    """`checks` is an AccessControl, or what has its methods for plain sends."""

    def __init__(self, checks):
        self._checks = checks
        self._hosts = {}

    def __dealloc__(self):
        free(self._scratch)

    def forget(self):
        """Accounts changed: ask again."""
        self._hosts.clear()
        self._host = None

    cdef int begin(self, bytes born_host) except -1:
        """The requests to come are of this peer (an IPv4 address and a port)."""
        cdef bytes host = born_host[:ADDRESS_BYTES]
        found = self._hosts.get(host)
        if found is None:
            if len(self._hosts) >= HOSTS_MAX:
                self._hosts.clear()
            address = ".".join([str(part) for part in host])
            found = self._hosts[host] = HostAccess(address, self._checks.is_white(address))
        self._host = found
        self._has_failures = self._checks.has_failures
        return 0

    cdef bint passes(self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes) except -1:
        """Whether the request is signed by who may send to its topic; its nonce is not looked at yet."""
        cdef HostAccess host = self._host
        cdef KeyAccess key
        cdef Py_ssize_t size
        if host.white:
            return True
        if header.access_key.at == NULL:
            return False
        key = host.last
        if (
            key is None
            or PyBytes_GET_SIZE(key.name) != header.access_key.size
            or memcmp(PyBytes_AS_STRING(key.name), header.access_key.at, header.access_key.size) != 0
        ):
            key = self._find_key(host, &header.access_key)
            if key is None:
                return False
            host.last = key
        if self._has_failures and self._checks.has_failed(host.address, key.name.decode()):
            return False  # whoever failed before is counted on the general way, and forgiven there
        if not key.signs:
            return True
        if header.signature.at == NULL or body_bytes > CHECKED_AT_ONCE_BYTES:
            return False  # a large body is looked through in several turns, on the general way
        size = self._content(header)
        if size < 0 or not key.is_signed(self._scratch, size, body, body_bytes, &header.signature):
            return False
        return key.may_send_to(&header.topic)

    def _key_of(self, HostAccess host not None, bytes name not None):
        """KeyAccess, or None for a key that nobody has."""
        admission = self._checks.admission(host.address, name.decode())
        if admission is None:
            return None
        if len(host.keys) >= KEYS_MAX:
            host.keys.clear()
        found = host.keys[name] = KeyAccess(name, admission)
        return found

    cdef KeyAccess _find_key(self, HostAccess host, JsonText *text):
        cdef bytes name = PyBytes_FromStringAndSize(text.at, text.size)
        found = host.keys.get(name)
        return found if found is not None else self._key_of(host, name)

    cdef bint takes_nonce(self, ParsedSendHeader *header) except -1:
        """Use up the nonce, as the last question of all: one that was taken is taken for good."""
        cdef HostAccess host = self._host
        if host.white or not host.last.signs:
            return True
        if header.nonce.at == NULL:
            return not self._checks.requires_nonce
        return self._checks.takes(
            header.access_key.at[: header.access_key.size].decode(),
            b"" if header.signed_at.at == NULL else header.signed_at.at[: header.signed_at.size],
            header.nonce.at[: header.nonce.size],
        )

    cdef Py_ssize_t _content(self, ParsedSendHeader *header) except -2:
        """Write the values that are signed into the scratch, in the order of their names; -1: not a plain header."""
        cdef Field *fields = header.fields
        cdef Field field
        cdef Py_ssize_t size = 0, i, j, written
        cdef int order
        for i in range(header.field_count):  # they come nearly in order
            size += fields[i].value.size
            field = fields[i]
            j = i - 1
            while j >= 0:
                order = compare_names(&fields[j].name, &field.name)
                if order == 0:
                    return -1  # twice the same: which one counts the general decoder knows
                if order < 0:
                    break
                fields[j + 1] = fields[j]
                j -= 1
            fields[j + 1] = field
        if size > self._scratch_bytes:
            self._grow(size)
        size = 0
        for i in range(header.field_count):
            field = fields[i]
            if is_name(field.name.at, field.name.size, b"Signature", 9) or is_name(
                field.name.at, field.name.size, b"_UNIQUE_KEY_QUERY", 17
            ):
                continue
            if field.value.escaped:
                written = unescape(&field.value, self._scratch + size)
                if written < 0:
                    return -1
                size += written
            else:
                memcpy(self._scratch + size, field.value.at, field.value.size)
                size += field.value.size
        return size

    cdef int _grow(self, Py_ssize_t size) except -1:
        cdef char *more = <char *> realloc(self._scratch, 2 * size)
        if more == NULL:
            raise MemoryError
        self._scratch = more
        self._scratch_bytes = 2 * size
        return 0


cdef int compare_names(JsonText *one, JsonText *other) noexcept nogil:
    """As Java and Python order ASCII names."""
    cdef Py_ssize_t shorter = min(one.size, other.size)
    cdef int order = memcmp(one.at, other.at, shorter)
    if order:
        return order
    return (one.size > other.size) - (one.size < other.size)
