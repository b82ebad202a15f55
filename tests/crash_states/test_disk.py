"""The laws of the modelled disk: what is synced is in every state, what is not may be there or not."""

import random
from collections.abc import Sequence

from crash_states.disk import PAGE, Disk
from crash_states.states import CHOICES, FILE_SYSTEMS, State, StateName, make_state
from crash_states.trace import CREATES, FAILED, RANGE, Kind, Op

A, B = b"A" * PAGE, b"B" * PAGE
ROOT, INODE = 1, 7
THREAD = b"12345678"


def create(path: str, inode: int = INODE) -> Op:
    return Op(Kind.OPEN, CREATES, path, inode, 0, 0, b"")


def write(data: bytes, at: int = 0, path: str = "f", inode: int = INODE) -> Op:
    return Op(Kind.WRITE, 0, path, inode, at, len(data), data)


def sync(path: str = "f", inode: int = INODE, flag: int = 0, at: int = 0, end: int = -1) -> list[Op]:
    begin = Op(Kind.SYNC_BEGIN, flag & ~FAILED, path, inode, at, end, THREAD)
    return [begin, Op(Kind.SYNC_END, flag, path, inode, at, end, THREAD)]


def named(path: str = "f", inode: int = INODE) -> list[Op]:
    """A file that is safe, and so is its name."""
    return [create(path, inode), *sync(path, inode), *sync("", ROOT)]


def states(ops: Sequence[Op], *, file_systems: Sequence[str] = FILE_SYSTEMS, seeds: int = 60) -> list[State]:
    """Many states at the end of the record."""
    disk = Disk()
    for op in ops:
        disk.play(op)
    dice = random.Random(1)
    return [
        make_state(disk, StateName(disk.index, system, choice, dice.getrandbits(30)))  # type: ignore[arg-type]
        for system in file_systems
        for choice in CHOICES
        for _ in range(seeds)
    ]


def contents(found: Sequence[State], path: str = "f") -> set[bytes | None]:
    """What the file has in the states; None where it does not exist."""
    result: set[bytes | None] = set()
    for state in found:
        image = state.files.get(path)
        if image is None:
            result.add(None)
            continue
        pages = range(-(-image.size // PAGE))
        result.add(b"".join(image.pages.get(page, bytes(PAGE)) for page in pages)[: image.size])
    return result


def test_what_was_synced_is_in_every_state() -> None:
    assert contents(states([*named(), write(A), *sync()])) == {A}


def test_what_was_not_synced_may_vanish_or_be_torn_between_sectors() -> None:
    found = contents(states([*named(), write(A), *sync(), write(B)]))
    assert {A, B} < found
    for content in found:
        assert content is not None
        sectors = {content[at : at + 512] for at in range(0, PAGE, 512)}
        assert sectors <= {b"A" * 512, b"B" * 512}


def test_pages_arrive_in_any_order() -> None:
    found = contents(
        states([*named(), Op(Kind.TRUNCATE, 0, "f", INODE, 2 * PAGE, 0, b""), *sync(), write(A + B)])
    )
    assert {bytes(2 * PAGE), A + bytes(PAGE), bytes(PAGE) + B, A + B} <= found


def test_a_write_during_a_sync_is_not_covered_by_it() -> None:
    begin, end = sync()
    assert contents(states([*named(), write(A), *sync(), begin, write(B), end])) >= {A, B}


def test_a_sync_of_a_range_covers_only_its_pages() -> None:
    grown = Op(Kind.TRUNCATE, 0, "f", INODE, 2 * PAGE, 0, b"")
    ranged = sync(flag=RANGE, at=0, end=PAGE)
    found = contents(states([*named(), grown, *sync(), write(A + B), *ranged]))
    assert {content[:PAGE] for content in found if content is not None} == {A}
    assert {A + bytes(PAGE), A + B} <= found


def test_the_sync_of_a_file_saves_its_name_only_where_a_journal_does() -> None:
    ops = [create("f"), write(A), *sync()]
    assert contents(states(ops, file_systems=["journal"])) == {A}
    assert contents(states(ops, file_systems=["loose"])) == {A, None}
    assert contents(states([*ops, *sync("", ROOT)])) == {A}


def test_a_folder_without_a_name_takes_its_files_along() -> None:
    made = [
        Op(Kind.MKDIR, 0, "d", 2, 0, 0, b""),
        create("d/f"),
        write(A, path="d/f"),
        *sync("d/f"),
        *sync("d", 2),
    ]
    assert contents(states(made, file_systems=["loose"]), "d/f") == {A, None}
    assert contents(states([*made, *sync("", ROOT)]), "d/f") == {A}


def test_a_folder_made_again_has_nothing_of_the_one_that_was_removed() -> None:
    def folder(kind: Kind, inode: int) -> Op:
        return Op(kind, 0, "d", inode, 0, 0, b"")

    removed = [Op(Kind.UNLINK, 0, "d/f", 0, 0, 0, b""), folder(Kind.RMDIR, 0), *sync("", ROOT)]
    for safe in (True, False):
        made = [folder(Kind.MKDIR, 8), *sync("", ROOT), create("d/f"), *(sync("d", 8) if safe else [])]
        for state in states([*made, *removed, folder(Kind.MKDIR, 9), *sync("", ROOT)]):
            assert state.folders == ["d"]
            assert state.files == {}


def test_renaming_gives_the_old_or_the_new_file_never_none() -> None:
    old = [*named(), write(A), *sync()]
    new = [create("f.tmp", 8), write(B, path="f.tmp", inode=8), *sync("f.tmp", 8)]
    renamed = [*old, *new, Op(Kind.RENAME, 0, "f.tmp", 8, 0, 0, b"f")]
    assert contents(states(renamed)) == {A, B}
    assert contents(states([*renamed, *sync("", ROOT)])) == {B}


def test_a_renamed_folder_takes_its_files_along_and_its_old_name_is_free() -> None:
    made = [
        Op(Kind.MKDIR, 0, "d", 2, 0, 0, b""),
        create("d/f"),
        write(A, path="d/f"),
        *sync("d/f"),
        *sync("d", 2),
        *sync("", ROOT),
    ]
    renamed = [*made, Op(Kind.RENAME, 0, "d", 2, 0, 0, b"e")]
    for state in states(renamed):
        assert sorted(state.files) in (["d/f"], ["e/f"])
    again = [*renamed, *sync("", ROOT), Op(Kind.MKDIR, 0, "d", 3, 0, 0, b""), *sync("", ROOT)]
    for state in states(again):
        assert sorted(state.files) == ["e/f"]
        assert sorted(state.folders) == ["d", "e"]


def test_a_renamed_file_that_was_not_synced_may_be_empty() -> None:
    ops = [*named(), write(A), *sync(), create("f.tmp", 8), write(B, path="f.tmp", inode=8)]
    assert b"" in contents(states([*ops, Op(Kind.RENAME, 0, "f.tmp", 8, 0, 0, b"f")]))


def test_a_sync_after_a_failed_one_says_nothing_of_the_pages_that_waited() -> None:
    ops = [*named(), write(A), *sync(), write(B), *sync(flag=FAILED), *sync()]
    assert contents(states(ops)) >= {A, B}


def test_a_page_written_again_after_a_failed_sync_is_safe_after_the_next() -> None:
    ops = [*named(), write(A), *sync(), write(B), *sync(flag=FAILED), write(B[:1]), *sync()]
    assert contents(states(ops)) == {B}


def test_cut_bytes_come_back_only_if_the_cut_did_not_arrive() -> None:
    cut = [Op(Kind.TRUNCATE, 0, "f", INODE, size, 0, b"") for size in (PAGE, 2 * PAGE)]
    found = contents(states([*named(), write(A + A), *sync(), *cut, write(B, at=PAGE)]))
    assert {A + A, A + bytes(PAGE), A + B} <= found
    assert all(content is not None and content[:PAGE] == A for content in found)
    assert contents(states([*named(), write(A + A), *sync(), *cut, *sync()])) == {A + bytes(PAGE)}


def test_the_name_of_a_state_makes_the_same_state_again() -> None:
    ops = [*named(), write(A), *sync(), write(B), create("g", 9), write(A, path="g", inode=9)]
    assert states(ops) == states(ops)
