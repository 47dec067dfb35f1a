"""What the reaper has saved: how savings are counted, their rows in the ledger, and their totals. docs/savings.md is the method."""
