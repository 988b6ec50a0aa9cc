"""Pages of a live stream, as of the last commit of the process that follows it."""
