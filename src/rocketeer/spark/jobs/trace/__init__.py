"""`rocketeer spark trace`: the lives of messages."""
