"""The model: preparing its folder, its shape, its weights and its forward pass."""
