"""Transactional messages: halves, their ends, and checks of those nobody ended."""
