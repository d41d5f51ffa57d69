"""Soaks."""
