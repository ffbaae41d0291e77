"""Text to token ids: chat templates, limits in tokens. Any number of replicas; each dials the front and the hub."""
