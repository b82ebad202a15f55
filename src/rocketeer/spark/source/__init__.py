"""Reading: from options to ranges on the driver, from ranges to Arrow in the executors; brokers or files."""
