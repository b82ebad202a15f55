"""Master and slave as a feature of the broker; the streams themselves are in `rocketeer.replication`."""
