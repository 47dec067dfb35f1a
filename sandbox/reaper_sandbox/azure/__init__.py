"""A simulated Azure for the demo and the tests: managed identity, Resource Manager, Resource Graph, Monitor metrics and email, over TLS on
127.0.0.1, strict where the real ones are strict. The real SDKs talk to it. `server.Server` starts it, `subscription` fills it."""
