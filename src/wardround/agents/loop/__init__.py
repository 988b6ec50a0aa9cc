"""The loop and its parts: one episode's control flow, its state, its history and context, tool calls, tokens."""
