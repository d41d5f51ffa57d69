"""`ortbench explain`: what the words of reports and commands mean."""
