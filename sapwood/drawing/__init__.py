"""Drawings of the graph of a program: in text, and as a picture."""
