"""Messages that consumers send back: retries and dead letters."""
