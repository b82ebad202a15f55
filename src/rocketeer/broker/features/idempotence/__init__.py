"""Idempotent producers: a message that is sent again is stored once."""
