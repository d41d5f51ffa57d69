"""The page of results that opens anywhere, and its charts."""
