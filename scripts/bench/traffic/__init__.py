"""Load for an OpenAI-style completions route, and what came of it. Imports nothing of any server."""
