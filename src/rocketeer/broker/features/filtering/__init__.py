"""Filters on the broker: SQL92 expressions and bloom filters."""
