"""`ortbench suite`: models, EPs and shapes as a TOML file says, in one folder."""
