"""What a client asks of name servers and brokers, as generators; the only place that knows request codes."""
