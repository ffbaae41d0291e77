"""The `sapwood` command: a file for each subcommand. They need the SDK alone, not the server."""
