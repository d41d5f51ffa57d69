"""The run on a machine with a GPU; see README.md in this folder."""
