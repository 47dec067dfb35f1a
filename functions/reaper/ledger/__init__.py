"""The ledger: what is remembered between runs, the port and its implementations."""
