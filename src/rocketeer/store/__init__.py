"""The store: the log and everything derived from it. Knows nothing of the protocol."""
