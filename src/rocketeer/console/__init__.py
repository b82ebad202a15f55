"""The cluster in a browser: pages over `rocketeer.aio.Admin`, so they show Apache's brokers too."""
