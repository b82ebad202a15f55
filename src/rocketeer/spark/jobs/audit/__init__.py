"""`rocketeer spark audit`: a store proved record by record, and a lake against its topics."""
