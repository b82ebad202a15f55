"""`rocketeer spark archive`: topics into a lake."""
