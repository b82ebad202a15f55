"""Proves a store from its files alone: records, queues, index, checkpoint; for the command, and for Spark's job."""
