"""`rocketeer spark stats`: measures of messages, as tables, JSON or one HTML page."""
