"""The pictures of a page."""
