"""Who may do what: accounts, signatures, white lists, a rule for every request code; TLS contexts."""
