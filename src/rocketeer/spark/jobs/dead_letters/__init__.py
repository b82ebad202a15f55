"""`rocketeer spark dead-letters`: what consumers gave up."""
