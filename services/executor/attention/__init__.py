"""Attention over the KV pool: one interface, several backends."""
