"""Delayed messages: the 18 levels, each delivered once."""
