"""`rocketeer doctor`: looks at a machine before (or while) a cluster runs on it, and says what to change."""
