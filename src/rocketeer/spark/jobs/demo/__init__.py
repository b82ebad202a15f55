"""`rocketeer spark demo`: everything once, on a shop's orders."""
