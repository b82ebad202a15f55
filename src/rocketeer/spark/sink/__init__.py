"""Writing: from Arrow to requests per queue, sent until stored; at least once or effectively once."""
