"""The gateway: HTTP and its APIs, keys and namespaces, and the journal of open requests.

Knows nothing of what tokens mean, of the model or of the cache.
"""
