"""What the parts of Ticketmill say to each other and what the ledger remembers."""
