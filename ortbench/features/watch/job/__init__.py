"""Runs a program with the recorder, and measures its sessions again."""
