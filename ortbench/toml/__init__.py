"""TOML files: options in tables, the line and the key of every mistake, and chains of models."""
