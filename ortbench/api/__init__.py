"""What `import ortbench` offers: the commands as functions, and what they give back."""
