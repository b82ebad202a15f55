"""The name server: brokers say which topics they hold, clients ask where a topic lives."""
