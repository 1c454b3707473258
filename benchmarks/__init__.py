"""How fast rows leave a source, as a ratio to a pipeline of command-line tools on the same machine."""
