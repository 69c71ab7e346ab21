"""Who may use the server, how much of it, and what they used: keys, accounts, limits, the usage ledger."""
