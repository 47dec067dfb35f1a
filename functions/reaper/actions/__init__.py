"""Acting and undoing: the executor, holds, intents, manifests and plan files."""
