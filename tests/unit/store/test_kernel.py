"""How much memory there is: the machine's, or what a container may have of it."""

from pathlib import Path

from rocketeer.store.kernel import physical_memory_bytes


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    whole = physical_memory_bytes(tmp_path, own)
    assert whole > 1 << 20
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert physical_memory_bytes(tmp_path, own) == whole
    limit.write_text(f"{256 << 20}\n")
    assert physical_memory_bytes(tmp_path, own) == 256 << 20
    own.write_text("12:cpu:/x\n0::/service/broker\n")
    group = tmp_path / "service" / "broker"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{64 << 20}\n")
    assert physical_memory_bytes(tmp_path, own) == 64 << 20
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text(f"{32 << 20}")
    assert physical_memory_bytes(tmp_path, own) == 32 << 20
    (old / "memory.limit_in_bytes").write_text(str(2**63 - 4096))
    assert physical_memory_bytes(tmp_path, own) == 64 << 20
