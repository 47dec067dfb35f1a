"""Embedded clouds for `reaper demo` and for the tests: they answer the real SDKs over real HTTP on 127.0.0.1, hold a fleet that is seeded
straight into memory, and can be told to fail in every way a cloud fails. Nothing in here imports the product: it is what the product talks to."""
