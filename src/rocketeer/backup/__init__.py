"""Backups of a store, running or stopped: consistent, incremental by file, restorable into an empty folder.

manifest.py   what a backup holds: one JSON file, and contents by their digest
contents.py   bytes in and out of a backup, checked
source.py     a store's files in the order they have to be copied in, and the end of its log
saving.py     one run of a backup
restoring.py  a store from a backup
"""
