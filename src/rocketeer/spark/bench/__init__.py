"""What `rocketeer bench spark`, `spark-sink` and `spark-jobs` measure, each in a process of its own."""
