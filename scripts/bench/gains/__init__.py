"""What a feature is worth to clients: the engine against itself without it, in turns and through HTTP."""
