"""The dashboard: a page that draws a server from its log lines, and what hands it the lines.

Knows files, lines and bytes. What stands in a line only the page knows. Imports nothing of the server, so a saved log
can be looked at where no server is installed.
"""
