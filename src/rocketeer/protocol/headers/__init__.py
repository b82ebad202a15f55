"""The typed headers of requests and replies, a module for each subject; `tables` says which code carries which."""
