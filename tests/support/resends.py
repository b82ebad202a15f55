"""What a file of known resends holds, in one piece: brokers save it in slices."""

from rocketeer.broker.features.idempotence.sequences import SavedSequence, Sequences
from rocketeer.store.known_ids import KnownIds


def saved_ids(ids: KnownIds) -> tuple[bytes, bytes]:
    """All hashes and all offsets."""
    slices = list(ids.dump_slices())
    return b"".join([hashes for hashes, _ in slices]), b"".join([offsets for _, offsets in slices])


def saved_sequences(sequences: Sequences) -> list[SavedSequence]:
    return [saved for some in sequences.dump_slices() for saved in some]
