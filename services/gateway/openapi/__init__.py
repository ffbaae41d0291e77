"""The OpenAPI document that the server gives of itself. Bodies are described by the structs that read them.

A new route is one entry in `operations.py`, with a struct for its reply; a test compares the entries with the routes.
"""
