"""Servers side by side: the order in which they work, and what their figures say against each other."""
