"""Sapwood: serve large language models from a tree of shared prefixes. This package is the SDK and the command."""

from sapwood._version import __version__

__all__ = ["__version__"]
