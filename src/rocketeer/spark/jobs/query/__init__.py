"""`rocketeer spark query`: one table per topic, lake and brokers together, asked with SQL."""
