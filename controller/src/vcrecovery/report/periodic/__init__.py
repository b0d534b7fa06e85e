"""`vcrecovery report`: what a period was like, as a page, as Markdown and as data."""
