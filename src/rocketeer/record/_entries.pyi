from rocketeer.record.entries import plain_entries as plain_entries
