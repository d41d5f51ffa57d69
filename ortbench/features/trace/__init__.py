"""The timeline of a run, for Perfetto and chrome://tracing."""
