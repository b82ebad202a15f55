"""`rocketeer spark trace`: the histories of messages."""
