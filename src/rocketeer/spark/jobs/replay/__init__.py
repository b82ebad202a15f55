"""`rocketeer spark replay`: messages of a lake or of a topic sent again."""
