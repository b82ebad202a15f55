"""The lake: Parquet by topic and day, and the commits that say which files count."""
