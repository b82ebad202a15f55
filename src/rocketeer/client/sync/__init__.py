"""The clients for threads: one-shot calls on blocking sockets, long-lived work hosted in one loop thread."""
