"""What the pictures of a page show: shaped from results, each with a caption and its numbers as a table."""
