"""Pages of a live stream: what another process follows, as of its last commit, and nothing later."""
