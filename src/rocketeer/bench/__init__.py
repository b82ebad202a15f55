"""The benchmark: real broker processes, a load generator that is not the bottleneck, and the bars to pass."""
