"""One module a subject; every handler answers one request code."""
