"""From an EP and a model to a session with inputs and memory."""
