"""Who is closed when all peers together leave too many replies unread: whose replies have waited longest."""

from rocketeer.remoting.held_bytes import UnreadReplies

MB = 1 << 20


class Reader:
    """A peer of which is said how much it has read."""

    def __init__(self) -> None:
        self.unread_bytes = self.taken_bytes = 0
        self.closed = ""

    def write(self, size: int) -> None:
        self.unread_bytes += size

    def read(self, size: int) -> None:
        self.unread_bytes -= size
        self.taken_bytes += size

    def close(self, reason: str, *, abort: bool = False) -> None:
        assert abort, "what was not read must be let go of"
        self.closed = reason
        self.unread_bytes = 0

    def drop_unfinished(self) -> None:
        raise AssertionError("it has no frame that began")


class Room:
    def __init__(self, limit: int) -> None:
        self.now_s = 0.0
        self.replies = UnreadReplies(limit, "limitUnreadBytes", lambda: self.now_s)

    def write(self, reader: Reader, size: int) -> None:
        reader.write(size)
        self.replies.note(reader)


def test_one_who_takes_little_now_and_then_is_slower_than_one_who_keeps_up() -> None:
    room, trickling, steady = Room(16 * MB), Reader(), Reader()
    room.write(trickling, 7 * MB)
    for second in range(1, 60):
        room.now_s = second
        trickling.read(1)
        steady.read(steady.unread_bytes)
        room.write(steady, 8 * MB)
    assert not trickling.closed
    assert not steady.closed
    room.write(steady, 2 * MB)
    assert "limitUnreadBytes=16777216" in trickling.closed
    assert "59.0 s" in trickling.closed
    assert not steady.closed


def test_what_was_read_meanwhile_does_not_count() -> None:
    room = Room(16 * MB)
    readers = [Reader() for _ in range(100)]
    for reader in readers:
        room.write(reader, 10 * MB)
        reader.read(10 * MB)
    assert not any(reader.closed for reader in readers)


def test_room_is_made_for_more_than_the_next_reply() -> None:
    room = Room(16 * MB)
    readers = [Reader() for _ in range(32)]
    for second, reader in enumerate(readers):
        room.now_s = second
        room.write(reader, MB // 2)
    room.write(readers[-1], 1)
    assert [bool(reader.closed) for reader in readers] == [True] * 5 + [False] * 27


def test_one_who_is_gone_is_forgotten() -> None:
    room, gone, other = Room(16 * MB), Reader(), Reader()
    room.write(gone, 15 * MB)
    room.replies.forget(gone)
    room.write(other, 15 * MB)
    assert not gone.closed
    assert not other.closed


def test_a_single_reader_beyond_the_limit_is_closed() -> None:
    room, reader = Room(16 * MB), Reader()
    room.write(reader, 16 * MB + 1)
    assert reader.closed
